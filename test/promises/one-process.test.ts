/** `signet all`: api, worker and edge in one process keep the promises of the parts apart, on one port. */
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { type DeployedApi, deployedApi, verifiedEndpoint } from "../support/deployed-api.ts";
import { type RunningDeployment, startDeployment } from "../support/deployed-service.ts";
import { accessToken, bearer, provision, type Provisioned } from "../support/factories.ts";
import { allowMinutes } from "../support/limits.ts";
import { productionImage } from "../support/processes.ts";
import { createTestDatabase, testNamespace } from "../support/services.ts";
import { publish } from "../support/tenant.ts";

allowMinutes(4);

let own: RunningDeployment;
let api: DeployedApi;
let client: Provisioned;

beforeAll(async () => {
  own = await startDeployment({
    image: productionImage(),
    directory: await mkdtemp(join(inject("runDirectory"), "one-process-")),
    database: await createTestDatabase(),
    temporal: { address: inject("temporalAddress"), namespace: await testNamespace() },
    edges: 0,
    together: true,
  });
  api = deployedApi(own);
  client = await provision(api, { scopes: ["inference:read", "webhooks:read"] });
});
afterAll(async () => {
  await own.close();
});

test("checks scopes in front of the data plane, and leaves the API's own paths to the API", async () => {
  const headers = bearer(await accessToken(api, client));
  expect(await api.overTls("/v1/inference/x", { headers })).toMatchObject({
    status: 200,
    body: { service: "data plane", url: "/v1/inference/x" },
  });
  expect(await api.overTls("/v1/pipelines", { headers, json: {} })).toMatchObject({
    status: 403,
    body: { code: "SCOPE_VIOLATION", missing_permission: "pipeline:write" },
  });
  expect(await api.overTls("/v1/webhooks/endpoints?limit=1", { headers })).toMatchObject({ status: 200 });
  expect(await api.overTls("/.well-known/jwks.json")).toMatchObject({ status: 200 });
});

test("binds tokens to the client's certificate at both, as without an edge", async () => {
  const headers = bearer(await accessToken(api, client));
  const stolen = { headers, pair: api.deployment.clients.second };
  for (const path of ["/v1/inference/x", "/v1/webhooks/endpoints"]) {
    expect(await api.overTls(path, stolen), path).toMatchObject({ status: 401 });
  }
});

test("rejects targets that a router could take for another path, and answers no path of neither", async () => {
  const headers = bearer(await accessToken(api, client));
  for (const [path, status] of [
    ["/v1/webhooks/../inference/x", 400],
    ["/v1/webhooks%2Fendpoints", 400],
    ["/admin/v1/tenants", 404],
    ["/v1/elsewhere", 404],
  ] as const) {
    expect(await api.overTls(path, { headers }), path).toMatchObject({ status });
  }
});

test("ends at once, in the data plane and in the API, what is revoked", async () => {
  const leaked = await provision(api, { scopes: ["inference:read", "webhooks:read"] });
  const headers = bearer(await accessToken(api, leaked));
  await api.signet("revoke", leaked.credentialId, "--reason", "leaked");
  for (const path of ["/v1/inference/x", "/v1/webhooks/endpoints"]) {
    expect(await api.overTls(path, { headers }), path).toMatchObject({
      status: 401,
      body: { code: "TOKEN_REVOKED" },
    });
  }
});

test("delivers what its API accepts", async () => {
  const { tenant, receiver } = await verifiedEndpoint(api);
  const id = await publish(tenant);
  await receiver.waitFor(1);
  expect(receiver.requests[0]?.headers["webhook-id"]).toBe(id);
});

test("has one target for the metrics of all parts, and one readiness with each check once", async () => {
  const metrics = await (await fetch(`${own.workerMetrics}/metrics`)).text();
  expect(metrics).toMatch(/^signet_build_info\{[^}]*process="all"[^}]*\} 1$/m);
  for (const name of [
    "signet_events_accepted_total",
    "signet_open_deliveries",
    "signet_edge_routes",
    "temporal_worker_task_slots_available",
  ]) {
    expect(metrics, name).toMatch(new RegExp(`^# TYPE ${name} `, "m"));
  }
  const answer = await fetch(`${own.workerMetrics}/readyz`);
  expect(answer.status).toBe(200);
  expect(await answer.text()).toMatch(/"routes"/);
});

test("reads the route table again on SIGHUP, and ends by itself on SIGTERM", async () => {
  own.worker.signal("SIGHUP");
  const headers = bearer(await accessToken(api, client));
  expect(await api.overTls("/v1/inference/x", { headers })).toMatchObject({ status: 200 });
  expect(await own.worker.stop("SIGTERM")).toMatchObject({ code: 0, signal: null });
});
