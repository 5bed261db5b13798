/** What deliveries to endpoints that hang cost in Temporal, counted by a proxy in front of its server. */
import { expect, onTestFinished, test } from "vitest";
import { RETRY_WINDOW_MS } from "#domain/retry-schedule.ts";
import { certificateFiles, newRoot, serverPair } from "../support/certificates.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { testNamespace } from "../support/services.ts";
import { startTemporalProxy, type TemporalProxy } from "../support/temporal-proxy.ts";
import { makeWorld, type World } from "../support/world.ts";

allowMinutes(4);

const ENDPOINTS = 2;
const PER_ENDPOINT = 40;
/** All first attempts, and some second ones. */
const REQUESTS = 100;
const WAIT_MS = 120_000;
/** Each is a write in Temporal. */
const WRITES = /^(?:StartWorkflowExecution|RecordActivityTaskHeartbeat|RespondActivityTaskCompleted)$/;

async function startProxy(): Promise<{ readonly proxy: TemporalProxy; readonly ca: string }> {
  const files = certificateFiles();
  const root = await newRoot("Temporal CA");
  const proxy = await startTemporalProxy(await serverPair(root), () => undefined);
  onTestFinished(() => {
    proxy.close();
    files.remove();
  });
  return { proxy, ca: files.write("ca.pem", root.cert) };
}

/** Publishes to each of `count` endpoints that never answer. Each takes a type of its own. */
async function publishToSilent(world: World, count: number): Promise<() => number> {
  const tenant = await world.createTenant();
  const receivers = await Promise.all(
    Array.from({ length: count }, async () => await startReceiver({ script: [{ kind: "hang" }] })),
  );
  onTestFinished(async () => void (await Promise.all(receivers.map(async (each) => await each.close()))));
  const publish = async (): Promise<void> => {
    for (const index of receivers.keys()) {
      await world.publish(tenant, {}, `silent.e${index}`);
    }
  };
  for (const [index, { url }] of receivers.entries()) {
    await world.createEndpoint(tenant, url, [`silent.e${index}`]);
  }
  await publish();
  // A worker that is itself late does not call them slow until their requests end.
  await eventually(async () => {
    const { rows } = await world.sql.query(
      "SELECT FROM endpoint_health JOIN endpoints ON id = endpoint_id WHERE tenant_id = $1 AND slow_until > now()",
      [tenant],
    );
    return rows.length === count;
  }, "the worker to notice that they hang");
  for (let made = 1; made < PER_ENDPOINT; made += 1) {
    await publish();
  }
  return () => receivers.reduce((sum, { requests }) => sum + requests.length, 0);
}

test("an attempt at an endpoint that hangs costs less than two writes in Temporal: many share each", async () => {
  const { proxy, ca } = await startProxy();
  const world = await makeWorld({
    retryWindowMs: RETRY_WINDOW_MS,
    temporal: { address: proxy.address, namespace: await testNamespace() },
    environment: { TEMPORAL_TLS_SERVER_CA_CERT_PATH: ca },
  });
  onTestFinished(async () => await world.close());
  await world.startWorker();
  const before = proxy.calls.length;
  const requests = await publishToSilent(world, ENDPOINTS);
  await eventually(() => requests() >= REQUESTS, `${REQUESTS} requests`, WAIT_MS);
  const writes = proxy.calls.slice(before).filter(({ method }) => WRITES.test(method)).length;
  // Alone, each has a workflow, an activity and the heartbeats of ten seconds.
  expect(writes / requests()).toBeLessThan(2);
});
