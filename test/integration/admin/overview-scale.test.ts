/** The overview of a deployment with 10,000 tenants and 100,000 endpoints reads indexes, up to a limit. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "../../../src/database/pool.ts";
import {
  LAG,
  listEndingCertificates,
  listFailingEndpoints,
  QUEUES,
  readQueues,
  readTenantLag,
} from "../../../src/database/repositories/operator-overview.ts";
import { searchText } from "../../../src/database/repositories/operator-finds.ts";
import { utcDay } from "../../../src/domain/ids.ts";
import { createLogger } from "../../../src/observability/logger.ts";
import { useTestApi } from "../../support/api.ts";
import { allowMinutes } from "../../support/limits.ts";
import { sql } from "../../support/tenant.ts";

allowMinutes(3);
const api = useTestApi();
let pool: Pool;

beforeAll(async () => {
  pool = createPool({
    url: api.database.url,
    role: "signet_operator",
    max: 8,
    log: createLogger({ level: "silent" }),
  });
  await sql(api, "SELECT ensure_day_partitions((now() - interval '29 days')::date, 31)");
  await sql(
    api,
    `INSERT INTO tenants (id, name, region, data_key, created_at)
      SELECT 'ten_' || lpad(n::text, 24, '0'), 'Tenant ' || n, 'eu', 'key', now() FROM generate_series(1, 10000) n`,
  );
  await sql(
    api,
    `INSERT INTO endpoints (id, tenant_id, url, event_types, state, disabled_reason, verification_state,
        verification_requested_at, created_at, updated_at, authentication)
      SELECT 'ep_' || lpad(n::text, 24, '0'), 'ten_' || lpad((n % 10000 + 1)::text, 24, '0'),
        'https://receiver-' || n || '.example/hooks', '{*}', CASE WHEN n % 500 = 0 THEN 'DISABLED' ELSE 'ACTIVE' END,
        CASE WHEN n % 500 = 0 THEN 'failing' END, 'VERIFIED', now(), now(), now(),
        CASE WHEN n % 1000 = 0 THEN '{"type":"client_certificate","not_after":"2020-01-01T00:00:00.000Z"}' END
      FROM generate_series(1, 100000) n`,
  );
  await sql(
    api,
    `INSERT INTO endpoint_activity (endpoint_id, tenant_id, health, health_since, results, retrying, dead)
      SELECT id, tenant_id, CASE WHEN right(id, 5)::int % 33 = 1 THEN 'failing' ELSE 'healthy' END, now(), '', 0, 0
      FROM endpoints`,
  );
  await sql(
    api,
    `INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, carrier, claimed_at,
        next_attempt_at, created_at)
      SELECT (now() AT TIME ZONE 'UTC')::date, 'dlv_' || lpad(n::text, 24, '0'),
        'ten_' || lpad((n % 2000 + 1)::text, 24, '0'), 'evt_' || n, 'order.paid', 'ep_' || lpad('1', 24, '0'),
        CASE WHEN n % 3 = 0 THEN 'RETRYING' WHEN n % 3 = 1 THEN 'QUEUED' ELSE 'DELIVERED' END,
        CASE WHEN n % 3 = 0 THEN 'dlv_' || n END, now(), now() - interval '1 min', now()
      FROM generate_series(1, 120000) n`,
  );
  await sql(api, "ANALYZE");
}, 120_000);

afterAll(async () => {
  await pool.end();
});

test("counts up to its limit and lists the tenants that are furthest behind", async () => {
  expect(await readQueues(pool, Date.now())).toMatchObject({
    waiting: 10_000,
    retrying: 10_000,
    failingEndpoints: expect.any(Number) as number,
    stoppedEndpoints: 200,
  });
  const lag = await readTenantLag(pool, new Date());
  expect(lag).toHaveLength(20);
  expect(lag[0]?.overdue).toBeGreaterThan(0);
  expect(await listFailingEndpoints(pool)).toHaveLength(20);
  expect(await listEndingCertificates(pool, new Date())).toHaveLength(20);
});

test("reads no table of deliveries or endpoints", async () => {
  const now = new Date();
  for (const [text, values] of [
    [QUEUES, [now, now, now]],
    [LAG, [now]],
  ] as const) {
    const { rows } = await pool.query<{ "QUERY PLAN": string }>(`EXPLAIN ${text}`, [...values]);
    const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
    // The partitions of other days are empty.
    const today = utcDay(now.getTime()).replaceAll("-", "");
    expect(plan).not.toMatch(new RegExp(`Seq Scan on (deliveries_${today}|endpoints|endpoint_activity)`));
  }
});

test("a search over all names and URLs finds what it should", async () => {
  expect(await searchText(pool, "receiver-99999.EXAMPLE", 20)).toMatchObject([{ kind: "endpoint" }]);
  expect(await searchText(pool, "Tenant 99", 20)).toHaveLength(20);
});
