/** The overview of a deployment with 10,000 tenants and 100,000 endpoints reads indexes, up to a limit. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import {
  LAG,
  listEndingCertificates,
  listFailingEndpoints,
  QUEUES,
  readQueues,
  readTenantLag,
} from "#database/repositories/operator-overview.ts";
import { searchText } from "#database/repositories/operator-finds.ts";
import { utcDay } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { useTestApi } from "#test/support/api.ts";
import { seedDeployment } from "#test/support/seeded-deployment.ts";
import { sql } from "#test/support/tenant.ts";

const api = useTestApi();
let pool: Pool;

beforeAll(async () => {
  pool = createPool({
    url: api.database.url,
    role: "signet_operator",
    max: 8,
    log: createLogger({ level: "silent" }),
  });
  await seedDeployment(async (text) => await sql(api, text));
}, 120_000);

afterAll(async () => {
  await pool.end();
});

test("counts up to its limit and lists the tenants that are furthest behind", async () => {
  expect(await readQueues(pool, Date.now())).toMatchObject({
    waiting: 10_000,
    retrying: 10_000,
    failing_endpoints: expect.any(Number) as number,
    stopped_endpoints: 200,
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
