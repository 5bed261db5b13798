/** Statistics of deliveries, by hour. */
import { expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import {
  createEndpoint,
  createTenant,
  type Json,
  publish,
  rows,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useSharedApi();
const STATS = "/v1/webhooks/stats";
const HOUR_MS = 3_600_000;
const database = {
  query: async (text: string, values: unknown[]): Promise<unknown> => await sql(api, text, values),
};

/** Returns the hours with deliveries. The present one may have just begun. */
async function fullHours(tenant: Tenant, query = ""): Promise<readonly Json[]> {
  return rows(await tenant.get(STATS + query)).filter(({ total }) => total !== 0);
}

/** Marks all of the tenant's deliveries as delivered, each with the same latency. */
async function deliver({ tenantId }: Pick<Tenant, "tenantId">, latencyMs: number): Promise<void> {
  await sql(
    api,
    `UPDATE deliveries SET state = 'DELIVERED', delivered_at = created_at + $2 * interval '1 millisecond'
      WHERE tenant_id = $1`,
    [tenantId, latencyMs],
  );
}

test("the statistics count volume, success and latency of their own tenant, hour by hour", async () => {
  const [tenant, other] = [await createTenant(api), await createTenant(api)];
  await createEndpoint(api, other);
  await publish(other);
  const { id: endpointId } = await createEndpoint(api, tenant);
  await publish(tenant);
  await publish(tenant);
  await deliver(tenant, 250);
  const earlier = Date.now() - 2 * HOUR_MS;
  await seedDeadLetters(database, { tenantId: tenant.tenantId, endpointId, count: 3, atMs: earlier });
  const hours = rows(await tenant.get(STATS));
  expect(hours).toHaveLength(24);
  const full = hours.filter(({ total }) => total !== 0);
  expect(full).toMatchObject([
    { total: 3, delivered: 0, dead_lettered: 3, latency_p50_ms: null, complete: true },
    { total: 2, delivered: 2, dead_lettered: 0, latency_p50_ms: 250, latency_p95_ms: 250, complete: true },
  ]);
  expect(full[0]?.["hour"]).toBe(new Date(Math.floor(earlier / HOUR_MS) * HOUR_MS).toISOString());
});

test("the statistics of an endpoint count its deliveries in every state, and none of another tenant", async () => {
  const [tenant, other] = [await createTenant(api), await createTenant(api)];
  const { id: first } = await createEndpoint(api, tenant);
  await publish(tenant);
  await deliver(tenant, 40);
  const { id: second } = await createEndpoint(api, tenant);
  await publish(tenant);
  await publish(tenant);
  await sql(api, "UPDATE deliveries SET carrier = 'claimed' WHERE endpoint_id = $1 AND id = $2", [
    second,
    rows(await tenant.get(`/v1/webhooks/deliveries?endpoint_id=${second}`))[0]?.["id"],
  ]);
  const found = async (by: Tenant, endpointId: string) => await fullHours(by, `?endpoint_id=${endpointId}`);
  expect(await found(tenant, first)).toMatchObject([{ total: 3, delivered: 1, latency_p95_ms: 40 }]);
  expect(await found(tenant, second)).toMatchObject([{ total: 2, delivered: 0, latency_p50_ms: null }]);
  expect(await found(other, first)).toEqual([]);
  expect(await tenant.get(`${STATS}?endpoint_id=all`)).toMatchObject({ status: 400 });
});

test("an hour with more than a thousand deliveries is counted exactly, and its latencies are marked as incomplete", async () => {
  const tenant = await createTenant(api);
  const { id: endpointId } = await createEndpoint(api, tenant);
  await seedDeadLetters(database, { tenantId: tenant.tenantId, endpointId, count: 1_001 });
  expect(await fullHours(tenant)).toMatchObject([{ total: 1_001, dead_lettered: 1_001, complete: false }]);
});
