/** Readiness of api and worker: without one of the search attributes, no workflow starts. */
import { randomBytes } from "node:crypto";
import { Connection } from "@temporalio/client";
import { beforeAll, expect, inject, test } from "vitest";
import { createLazyClient, temporalOptions } from "#temporal/client.ts";
import { ensureNamespace } from "#temporal/namespace.ts";
import { temporalReadiness } from "#temporal/readiness.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import { failedChecks, type FailedCheck } from "#runtime/readiness.ts";
import { messageOf } from "#runtime/thrown.ts";
import { useTestApi } from "#test/support/api.ts";
import { certificateFiles, newRoot, serverPair } from "#test/support/certificates.ts";
import { eventually } from "#test/support/eventually.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { startSecondApi } from "#test/support/second-api.ts";
import { testNamespace } from "#test/support/services.ts";
import { startTcpProxy } from "#test/support/tcp-proxy.ts";
import { temporalCli } from "#test/support/temporal-cli.ts";
import { startTemporalProxy } from "#test/support/temporal-proxy.ts";
import { makeWorld, useWorld } from "#test/support/world.ts";

// Checks reuse what they find for ten seconds, and so does Temporal's server.
allowMinutes(3);

const attribute = ["operator", "search-attribute"] as const;
const namespace = `n${randomBytes(6).toString("hex")}`;

beforeAll(async () => {
  const address = inject("temporalAddress");
  const connection = await Connection.connect({ address });
  await ensureNamespace(connection, { timers: machineTimers, namespace, address });
  await connection.close();
});

const api = useTestApi({ environment: { TEMPORAL_NAMESPACE: namespace } });
const world = useWorld({ temporal: { address: inject("temporalAddress"), namespace } });

test("/readyz says 503 while a search attribute is missing, the reason names it, and 200 once it is back", async () => {
  const { current } = world;
  const { readiness } = await current.startWorker();
  const worker = async (): Promise<readonly FailedCheck[]> => await failedChecks(readiness);
  const isReady = async (): Promise<boolean> =>
    (await api.requestOnce("/readyz")).status === 200 && (await worker()).length === 0;
  await eventually(isReady, "api and worker to be ready");

  await temporalCli(current, ...attribute, "remove", "--name", "SignetOpen", "--yes");
  const answer = await eventually(async () => {
    const found = await api.requestOnce("/readyz");
    return found.status === 503 ? found : undefined;
  }, "the api to notice");
  expect(answer.body).toMatchObject({ code: "UNAVAILABLE", failing: ["temporal"] });
  const reason = `Temporal namespace ${namespace} has no search attribute SignetOpen: run \`signet migrate\``;
  expect(api.log.join("")).toContain(reason);
  const [failure] = await eventually(async () => {
    const failures = await worker();
    return failures.length > 0 ? failures : undefined;
  }, "the worker to notice");
  expect(failure?.name).toBe("temporal");
  expect(messageOf(failure?.error)).toContain(reason);

  await temporalCli(current, ...attribute, "create", "--name", "SignetOpen", "--type", "Int");
  await eventually(isReady, "api and worker to be ready again");
});

test("a Temporal that answers no queries is ready: starts do not need them", async () => {
  const files = certificateFiles();
  const root = await newRoot("Temporal CA");
  const proxy = await startTemporalProxy(await serverPair(root), ({ method }) =>
    method === "CountWorkflowExecutions" ? "PERMISSION_DENIED" : undefined,
  );
  const proxied = await makeWorld({
    temporal: { address: proxy.address, namespace: await testNamespace() },
    environment: { TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.write("ca.pem", root.cert) },
  });
  const client = createLazyClient(temporalOptions(proxied.config));
  const readiness = [temporalReadiness(client, machineTimers.monotonic)];
  await failedChecks(readiness);
  expect(await failedChecks(readiness)).toEqual([]);
  expect(await failedChecks(readiness)).toEqual([]);
  expect(proxy.calls.filter(({ method }) => method === "CountWorkflowExecutions")).toHaveLength(1);
  await client.connection.close();
  await proxied.close();
  proxy.close();
  files.remove();
});

test("an api whose connection was opened while Temporal said nothing is ready once a new one works", async () => {
  const proxy = await startTcpProxy(Number(inject("temporalAddress").split(":").at(-1)));
  proxy.freeze();
  const { database, environment } = api;
  const address = `127.0.0.1:${proxy.port}`;
  const second = await startSecondApi({
    database,
    environment: { ...environment, TEMPORAL_ADDRESS: address },
  });
  const readyz = async (): Promise<number> => (await second.requestOnce("/readyz")).status;
  expect(await readyz()).toBe(503);
  // What was opened until now stays silent for ever.
  expect(proxy.blackHole()).toBeGreaterThan(0);
  proxy.thaw();
  await eventually(async () => (await readyz()) === 200, "the api to be ready");
  await second.close();
  await proxy.close();
});
