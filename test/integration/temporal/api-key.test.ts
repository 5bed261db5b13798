/** Temporal behind a frontend that asks for an API key, as Temporal Cloud does: a real server behind a TLS proxy. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Environment } from "#config/config.ts";
import { checkNamespace, createLazyClient } from "#temporal/client.ts";
import { connectNative } from "#temporal/native-client.ts";
import { certificateFiles, newRoot, serverPair } from "#test/support/certificates.ts";
import { eventually } from "#test/support/eventually.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import { testNamespace } from "#test/support/services.ts";
import { askTemporal, temporalOptionsOf } from "#test/support/temporal-connection.ts";
import { startTemporalProxy, type TemporalProxy } from "#test/support/temporal-proxy.ts";
import { makeWorld, type World } from "#test/support/world.ts";

allowMinutes(2);

const files = certificateFiles();
/** Keys that the frontend accepts now. */
const accepted = new Set(["first-key"]);
let proxy: TemporalProxy;
let world: World;
let keyFile: string;

beforeAll(async () => {
  const root = await newRoot("Temporal CA");
  proxy = await startTemporalProxy(await serverPair(root), ({ headers }) => {
    const [, key = ""] = /^Bearer (.+)$/.exec(headers.authorization ?? "") ?? [];
    return accepted.has(key) ? undefined : "UNAUTHENTICATED";
  });
  keyFile = files.write("api-key", "first-key\n");
  world = await makeWorld({
    temporal: { address: proxy.address, namespace: await testNamespace() },
    environment: {
      TEMPORAL_API_KEY_FILE: keyFile,
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.write("ca.pem", root.cert),
      TEMPORAL_GRPC_META_X_ROUTE_TO_CELL: "seven",
    },
  });
});

afterAll(async () => {
  await world.close();
  proxy.close();
  files.remove();
});

describe("a worker with an API key", () => {
  test("delivers, retries, and takes over a rotated key without a restart", async () => {
    const worker = await world.startWorker();
    // Each delivery needs a retry, and so a workflow, its tasks and their answers.
    const retried = [{ kind: "answer", status: 500 }, { kind: "answer" }] as const;
    const receiver = await startReceiver({ script: [...retried, ...retried, ...retried] });
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, receiver.url);
    const deliver = async (): Promise<void> => {
      const { deliveries } = await world.publish(tenant);
      await world.untilDelivery(tenant, deliveries[0]?.id ?? "", ({ state }) => state === "DELIVERED");
    };
    const callsWith = (key: string, method: string): readonly unknown[] =>
      proxy.calls.filter(
        (call) =>
          call.refused === undefined &&
          call.method === method &&
          call.headers.authorization === `Bearer ${key}`,
      );
    await deliver();
    expect(callsWith("first-key", "RespondWorkflowTaskCompleted")).not.toHaveLength(0);

    // As Temporal Cloud rotates keys: the next one is valid before the first is revoked.
    accepted.add("second-key");
    files.write("api-key", "second-key");
    await eventually(() => callsWith("second-key", "DescribeNamespace").length > 0, "the second key");
    accepted.delete("first-key");
    await deliver();
    expect(callsWith("second-key", "RespondWorkflowTaskCompleted")).not.toHaveLength(0);

    // Revoked by mistake, and only then replaced.
    accepted.clear();
    const before = proxy.calls.length;
    await eventually(
      () => proxy.calls.slice(before).some(({ refused }) => refused !== undefined),
      "a refusal",
    );
    accepted.add("third-key");
    files.write("api-key", "third-key");
    await deliver();
    expect(callsWith("third-key", "RespondWorkflowTaskCompleted")).not.toHaveLength(0);
    await receiver.close();
    await worker.close();
  });

  test("sends its headers and its namespace with each call", () => {
    const forwarded = proxy.calls.filter(({ refused }) => refused === undefined);
    expect(forwarded.length).toBeGreaterThan(10);
    for (const { headers } of forwarded) {
      expect(headers).toMatchObject({ "x-route-to-cell": "seven" });
    }
    const polls = forwarded.filter(({ method }) => method.startsWith("Poll"));
    for (const { headers } of polls) {
      // Temporal Cloud's regional endpoints route by it.
      expect(headers["temporal-namespace"]).toBe(world.config.temporalNamespace);
    }
  });
});

describe("an API key", () => {
  const changedBy = (changed: Environment): Environment => ({ ...world.environment, ...changed });
  const ask = async (changed: Environment): Promise<void> => await askTemporal(changedBy(changed));

  test("that is wrong is refused, in the api as in a worker", async () => {
    const wrong = { TEMPORAL_API_KEY_FILE: "", TEMPORAL_API_KEY: "wrong-key" };
    await expect(ask(wrong)).rejects.toThrow(/UNAUTHENTICATED/);
    await expect(connectNative(temporalOptionsOf(changedBy(wrong)))).rejects.toThrow(/./);
  });

  test("may come from a variable or from a profile; an api uses its file's newest key", async () => {
    accepted.add("variable-key").add("profile-key");
    await ask({ TEMPORAL_API_KEY_FILE: "", TEMPORAL_API_KEY: "variable-key" });
    const profiles = files.write(
      "temporal.toml",
      `[profile.cloud]\napi_key = "profile-key"\naddress = "${proxy.address}"\n`,
    );
    await ask({ TEMPORAL_API_KEY_FILE: "", TEMPORAL_CONFIG_FILE: profiles, TEMPORAL_PROFILE: "cloud" });
    accepted.add("newest-key");
    const client = createLazyClient(temporalOptionsOf(world.environment));
    await checkNamespace(client);
    accepted.delete("third-key");
    files.write("api-key", "newest-key");
    await checkNamespace(client);
    await client.connection.close();
    expect(proxy.calls.at(-1)?.headers).toMatchObject({
      authorization: "Bearer newest-key",
      "temporal-namespace": world.config.temporalNamespace,
    });
  });
});
