/**
 * README's Production and docs/operations.md's Compose, line by line, in a real container engine and a fresh clone that
 * only its owner can read.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  comparedIn,
  comparedOf,
  parseEnvFile,
  type ReadService,
  readCompose,
} from "../support/compose-file.ts";
import { ContainerStack, linesOf, NO_ENGINE, verifyDelivered } from "../support/container-stack.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { type Published, publishDuring } from "../support/publisher.ts";
import { useStarted } from "../support/started.ts";
import { type Json, StackClient } from "../support/stack-client.ts";
import { describeTemporal } from "./temporal.ts";

allowMinutes(10);

const ORIGIN = "https://localhost:8443";
const TYPE = "inference.completed";
/** Longest time without a taken connection while settings change or a version is replaced. */
const REFUSED_MAX_MS = 2_000;
/** Attempts of a cycle. */
const ATTEMPTS = 17;
const PATIENCE_MS = 120_000;

describe.skipIf(NO_ENGINE)("the compose file in a container engine", () => {
  const stack = useStarted("the stack", async () => await ContainerStack.prepare());
  let client: StackClient;

  async function temporal(command: string): Promise<string> {
    const [line = "exit 1"] = await linesOf("docs/operations.md", /^temporal workflow list .*--tls-/);
    const connection = line.slice(line.indexOf("--namespace")).replace("localhost:7233", "temporal:7233");
    return await stack.current.run(
      'docker compose run --rm --no-deps -T --user "$(id -u)" -v "$PWD:/here:ro" -w /here --entrypoint temporal ' +
        `temporal-schema ${command} ${connection}`,
    );
  }

  const publishing = async (perSecond: number, what: () => Promise<unknown>): Promise<Published> =>
    await publishDuring({ stack: stack.current, client, origin: ORIGIN, type: TYPE, perSecond }, what);

  const say = (what: string, { accepted, refusals, longestRefusalMs }: Published): void =>
    console.log(
      `${what}: ${accepted.length} accepted and delivered, repeated ${JSON.stringify(refusals)}, ` +
        `no connection for ${longestRefusalMs} ms`,
    );

  test("starts as README says, and its operator creates a tenant", async () => {
    const [up = "exit 1", create = "exit 1", ...more] = await linesOf("README.md", /docker compose /);
    expect(more).toEqual([]);
    // The first half has made `.env`.
    await stack.current.run(up.replace(/^sed .* && /, ""));
    expect(await stack.current.paste(create)).toContain("ten_");
    await stack.current.startReceiver();
  });

  test("has the services that the tests of its files read", async () => {
    const printed = await stack.current.run("docker compose --profile '*' config --format json");
    // It is a compose file again, in which a dollar is two.
    const found = JSON.parse(printed.replaceAll("$$", "$")) as {
      readonly services: Readonly<Record<string, ReadService>>;
    };
    const { directory } = stack.current;
    const read = readCompose(directory, parseEnvFile(readFileSync(join(directory, ".env"), "utf8")));
    const names = Object.keys(found.services);
    expect(Object.keys(read.services).toSorted()).toEqual(names.toSorted());
    for (const name of names) {
      const expected = comparedOf(found.services[name] ?? {}, directory);
      expect(comparedIn(read, name), name).toEqual(expected);
    }
  });

  test("issues tokens over mutual TLS with the commands of docs/operations.md", async () => {
    for (const line of await linesOf("docs/operations.md", /^docker compose run --rm -T init \w/)) {
      await stack.current.run(line);
    }
    client = await StackClient.provision(stack.current, ORIGIN);
    const [curl = "exit 1"] = await linesOf("docs/operations.md", /^curl .*\/v1\/auth\/token/);
    const filled = curl
      .replace("cl_…", String(client.credential["client_id"]))
      .replace("sgn_…", String(client.credential["client_secret"]));
    expect(JSON.parse(await stack.current.run(filled))).toMatchObject({ token_type: "Bearer" });
    const anonymous = await stack.current.run(`curl -s --cacert ca.crt ${ORIGIN}/v1/auth/token -d '{}'`);
    expect(anonymous).toContain("CLIENT_CERT_REQUIRED");
  });

  test("verifies an endpoint with a private authority's certificate, and delivers", async () => {
    const { secret } = await client.newEndpoint("/hook", TYPE);
    const id = await client.publish(TYPE, { tokens: 42 });
    const received = await stack.current.untilReceived(id);
    expect(verifyDelivered(received, String(secret)).payload).toMatchObject({ id, data: { tokens: 42 } });
  });

  test("shows what it does: doctor, top, the portal, Temporal's UI", async () => {
    const found = await stack.current.run("docker compose exec -T signet signet doctor");
    expect(found).toMatch(/^(ok .*\n)+$/);
    expect(await stack.current.signet("top")).toHaveProperty("followers");
    const link = await client.call("POST", "/v1/portal/links", { scopes: ["webhooks:read"] });
    const page = await stack.current.run(
      `curl -s --cacert ca.crt --cert example.pem '${String(link["url"])}'`,
    );
    expect(page).toContain("<form");
    expect(await stack.current.run("curl -sf http://localhost:8233/")).toContain("<html");
    const listed = await stack.current.run(
      "curl -sf http://localhost:8233/api/v1/namespaces/signet/workflows",
    );
    expect(listed).toContain("deliver");
  });

  test("makes a dead letter of a failing delivery, which a signal replays", async () => {
    await client.newEndpoint("/broken", "order.paid");
    stack.current.breakReceiver(true);
    const id = await client.publish("order.paid");
    const delivery = async (): Promise<Json | undefined> => {
      const { data } = await client.call("GET", `/v1/webhooks/deliveries?event_id=${id}`);
      return (data as readonly Json[])[0];
    };
    const attempted = async (count: number): Promise<Json> => {
      const found = async (): Promise<Json | undefined> => {
        const now = await delivery();
        return Number(now?.["attempt_count"]) >= count ? now : undefined;
      };
      return await eventually(found, `attempt ${count}`, PATIENCE_MS);
    };
    const workflow = String((await attempted(1))["workflow_id"]);
    const signal = async (name: string): Promise<string> =>
      await temporal(`workflow signal --workflow-id ${workflow} --name ${name}`);
    for (let count = 2; count <= ATTEMPTS; count += 1) {
      await signal("attemptNow");
      await attempted(count);
    }
    const is = async (state: string): Promise<boolean> => (await delivery())?.["state"] === state;
    await eventually(async () => await is("DEAD_LETTERED"), "the dead letter", PATIENCE_MS);
    stack.current.breakReceiver(false);
    await signal("replay");
    await eventually(async () => await is("DELIVERED"), "the replayed delivery", PATIENCE_MS);
  });

  describeTemporal(() => stack.current, temporal);

  test("loses nothing when the main process of any container is killed at 50 events a second", async () => {
    for (const service of ["signet", "temporal", "postgres", "edge-port"]) {
      say(`kill -9 of ${service}`, await publishing(50, async () => await stack.current.crash(service)));
    }
  });

  test("changes a setting without refusing connections", async () => {
    const [upgrade = "exit 1"] = await linesOf("docs/operations.md", /compose\/upgrade\.sh/);
    stack.current.set({ SIGNET_LOG_LEVEL: "debug" });
    const published = await publishing(20, async () => await stack.current.run(upgrade));
    say("a changed setting", published);
    expect(published.longestRefusalMs).toBeLessThanOrEqual(REFUSED_MAX_MS);
    const level = await stack.current.run("docker compose exec -T signet printenv SIGNET_LOG_LEVEL");
    expect(level).toBe("debug\n");
    // The second one has gone again.
    expect(await stack.current.run("docker compose ps --all --quiet signet-b")).toBe("");
  });

  describe("a wrong line in .env leaves the running services untouched, and its message names it", () => {
    const containers = async (): Promise<string> =>
      await stack.current.run(
        "docker compose ps --format '{{.Service}} {{.ID}} {{.RunningFor}}' | cut -d' ' -f1,2 | sort",
      );

    test.for<readonly [name: string, value: string, says: RegExp]>([
      ["POSTGRES_PASSWORD", "", /POSTGRES_PASSWORD is missing a value: see \.env\.example/],
      ["TEMPORAL_DATABASE_PASSWORD", "", /TEMPORAL_DATABASE_PASSWORD is missing a value/],
      ["SIGNET_DATABASE_PASSWORD", "", /SIGNET_DATABASE_PASSWORD is missing a value/],
      ["SIGNET_EDGE_DATABASE_PASSWORD", "", /SIGNET_EDGE_DATABASE_PASSWORD is missing a value/],
      ["POSTGRES_PASSWORD", "other", /password authentication failed for user \\?"postgres/],
      ["TEMPORAL_DATABASE_PASSWORD", "other", /password authentication failed for user "temporal"/],
      ["SIGNET_DATABASE_PASSWORD", "other", /password authentication failed for user "signet"/],
      ["SIGNET_DATABASE_PASSWORD", "'p@ss/w#rd?'", /SIGNET_DATABASE_URL/],
      ["SIGNET_PUBLIC_URL", "localhost", /SIGNET_PUBLIC_URL must be/],
      ["SIGNET_PUBLIC_URL", "http://localhost", /SIGNET_PUBLIC_URL must be https/],
      ["SIGNET_ALLOWED_TARGET_CIDRS", "172.16.0.0/99", /SIGNET_ALLOWED_TARGET_CIDRS must be/],
      ["SIGNET_DENIED_TARGET_CIDRS", "everything", /SIGNET_DENIED_TARGET_CIDRS must be/],
      ["SIGNET_OUTBOUND_PROXY", "ftp://proxy", /SIGNET_OUTBOUND_PROXY must be/],
      ["SIGNET_TARGET_CA_FILE", "./missing.crt", /missing\.crt/],
      ["SIGNET_TARGET_CA_FILE", "./README.md", /SIGNET_TARGET_CA_FILE has no certificate in PEM/],
      ["SIGNET_LOG_LEVEL", "loud", /SIGNET_LOG_LEVEL must be one of/],
      ["SIGNET_IMAGE", "localhost:1/signet", /localhost:1/],
    ])("%s=%s", async ([name, value, says]) => {
      const before = { line: stack.current.value(name), containers: await containers() };
      stack.current.set({ [name]: value });
      const { code, output } = await stack.current.try("sh compose/upgrade.sh");
      stack.current.set({ [name]: before.line });
      expect(output).toMatch(says);
      expect(code).not.toBe(0);
      expect(await containers()).toBe(before.containers);
      console.log(`${name}=${value}: ${output.split("\n").find((line) => says.test(line))}`);
    });
  });

  test("starts again with its data after it was removed", async () => {
    await stack.current.run("docker compose down");
    await stack.current.run("docker compose up --detach --wait");
    await stack.current.untilReceived(await client.publish(TYPE));
  });
});
