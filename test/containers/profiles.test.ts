/** The profiles of the compose file, in a real container engine. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ContainerStack, NO_ENGINE, verifyDelivered } from "../support/container-stack.ts";
import { labelledBlocks } from "../support/documents.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { skipUnless } from "../support/skips.ts";
import { useStarted } from "../support/started.ts";
import { StackClient } from "../support/stack-client.ts";

allowMinutes(10);

const TYPE = "inference.completed";
const PATIENCE_MS = 120_000;

describe.skipIf(NO_ENGINE)("the profiles of the compose file", () => {
  const stack = useStarted(
    "the stack",
    async () => await ContainerStack.prepare({ SIGNET_CELL_DATABASE_PASSWORD: "cellsecret" }),
  );

  test("region: an edge behind hubs serves, refuses without them, and admits again", async () => {
    await stack.current.run("docker compose --profile region up --detach --build --wait");
    await stack.current.startReceiver();
    await stack.current.run("docker compose run --rm -T init ca > ca.crt");
    await stack.current.run("docker compose run --rm -T init client example > example.pem");
    const home = await StackClient.provision(stack.current, "https://localhost:8443");
    const client = home.at("https://localhost:8444");
    await client.newEndpoint("/region", TYPE);
    await stack.current.untilReceived(await client.publish(TYPE));
    for (const service of ["remote-edge", "hub-a", "hub-b"]) {
      const found = await stack.current.run(`docker compose exec -T ${service} signet doctor`);
      expect(found, service).toMatch(/^(ok .*\n)+$/);
    }

    stack.current.set({ SIGNET_LOG_LEVEL: "debug" });
    await stack.current.run("sh compose/upgrade.sh --profile region");
    for (const service of ["remote-edge", "hub-a", "hub-b"]) {
      expect(await stack.current.run(`docker compose exec -T ${service} env`), service).toContain(
        "SIGNET_LOG_LEVEL=debug\n",
      );
    }
    await stack.current.untilReceived(await client.publish(TYPE));

    await stack.current.run("docker compose stop hub-a hub-b");
    // The runbook's drill. An edge that is not ready admits nobody to its data plane (test/e2e/hub-faults.test.ts).
    const ask = `fetch("http://127.0.0.1:9464/readyz").then(async (answer) => console.log(answer.status, await answer.text()))`;
    const readiness = async (): Promise<string> =>
      await stack.current.run(`docker compose exec -T remote-edge node --eval '${ask}'`);
    const stale = async (): Promise<boolean> => /^503 .*revocation/s.test(await readiness());
    await eventually(stale, "the edge without hubs to be not ready", PATIENCE_MS);
    await stack.current.run("docker compose --profile region up --detach --wait hub-a hub-b");
    await eventually(async () => (await readiness()).startsWith("200 "), "the edge to be ready", PATIENCE_MS);
    const { client_id: id } = client.credential;
    const receipt = await stack.current.signet(`revoke ${String(id)} --reason leaked`);
    expect(JSON.stringify(receipt)).toContain('"region":"ap"');
    expect((await client.ask("GET", "/v1/webhooks/endpoints")).status).toBe(401);
  });

  test("cell: the second cell serves its region, as docs/regions.md shows", async () => {
    await stack.current.run("docker compose --profile cell up --detach --build --wait");
    expect(await stack.current.run("docker compose exec -T api-us signet doctor")).toMatch(/^(ok .*\n)+$/);
    const block = labelledBlocks(
      readFileSync(join(stack.current.directory, "docs", "regions.md"), "utf8"),
    ).get("cell");
    const printed = await stack.current.run(`${block ?? "exit 1"}\necho "$TOKEN"`);
    const lines = printed.trimEnd().split("\n");
    const answers = lines.slice(0, -1).map((line): unknown => JSON.parse(line));
    expect(answers).toMatchObject([
      { status: 421, code: "MISDIRECTED_REQUEST", region: "us", base_url: "https://localhost:8445" },
      { type: "order.paid" },
    ]);
    await stack.current.joinReceiver("us");
    const client = StackClient.withToken(stack.current, "https://localhost:8445", lines.at(-1) ?? "");
    const { secret } = await client.newEndpoint("/us", TYPE);
    const id = await client.publish(TYPE);
    expect(verifyDelivered(await stack.current.untilReceived(id), String(secret)).payload).toMatchObject({
      id,
    });
  });

  test("monitoring: every target answers, also of the other profiles, and the rules load", async () => {
    const grafana = await stack.current.try("docker compose --profile monitoring pull grafana");
    const services = skipUnless(grafana.code === 0, "Grafana's container", "its image cannot be pulled")
      ? "prometheus"
      : "prometheus grafana";
    await stack.current.run(`docker compose --profile monitoring up --detach --wait ${services}`);
    interface Target {
      readonly health: string;
      readonly labels: { readonly instance: string };
    }
    const targets = async (): Promise<readonly Target[]> => {
      const { data } = JSON.parse(
        await stack.current.run("curl -sf http://localhost:9090/api/v1/targets"),
      ) as {
        readonly data: { readonly activeTargets: readonly Target[] };
      };
      return data.activeTargets;
    };
    const expected = ["signet", "api", "hub-a", "hub-b", "remote-edge", "api-us", "worker-us"]
      .map((name) => `${name}:9464`)
      .toSorted();
    await eventually(
      async () => {
        const found = await targets();
        expect(found.map(({ labels }) => labels.instance).toSorted()).toEqual(expected);
        expect(found.filter(({ health }) => health !== "up")).toEqual([]);
        return true;
      },
      "every target to answer",
      PATIENCE_MS,
    );
    const rules = await stack.current.run("curl -sf http://localhost:9090/api/v1/rules");
    expect(rules).toContain("SignetRegionWithoutHub");
    expect(rules).not.toContain('"health":"err"');

    // Without the profiles, their targets are gone, not down.
    await stack.current.run(
      "docker compose --profile region --profile cell stop api hub-a hub-b remote-edge api-us worker-us",
    );
    const always = ["signet:9464"];
    await eventually(
      async () => {
        expect((await targets()).map(({ labels }) => labels.instance).toSorted()).toEqual(always);
        return true;
      },
      "the targets of the profiles to go",
      PATIENCE_MS,
    );
  });
});
