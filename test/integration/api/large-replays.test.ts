/** A replay of many dead letters answers at once, and what counts its items reads a bounded number of them. */
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { fillDeliveries } from "#test/support/many-rows.ts";
import { createEndpoint, createTenant, sql, type Tenant, WEBHOOK_SCOPES } from "#test/support/tenant.ts";
import { COMPARED_MAX, OUTCOMES_MAX } from "#webhooks/replay/replay-service.ts";

allowMinutes(5);

const LETTERS = 100_000;
/** What the answer to a replay lists. The worker, which does not run here, lists the others. */
const LISTED_FIRST = 2_000;
const REPLAY = "/v1/webhooks/dlq/replay";

const api = useTestApi();
let tenant: Tenant;
let owner: Client;

beforeAll(async () => {
  tenant = await createTenant(api, WEBHOOK_SCOPES);
  const { id: endpointId } = await createEndpoint(api, tenant);
  owner = new Client({ connectionString: api.database.adminUrl });
  await owner.connect();
  const { tenantId } = tenant;
  await fillDeliveries(owner, { tenantId, endpointId, state: "DEAD_LETTERED", count: LETTERS });
  await owner.query("VACUUM (ANALYZE)");
});
afterAll(async () => {
  await owner.end();
});

test("a replay of 100,000 dead letters answers once the first 2,000 are listed", async () => {
  const { status, body } = await tenant.post(REPLAY, { filter: {} });
  expect(status).toBe(202);
  expect(body).toMatchObject({ state: "RUNNING", total: LISTED_FIRST, listing: true, done: 0 });
  expect(await sql(api, "SELECT count(*)::int AS n FROM replay_items")).toEqual([{ n: LISTED_FIRST }]);
});

test("a replay chosen by states answers as soon", async () => {
  const states = ["DEAD_LETTERED", "RETRYING"];
  const { status, body } = await tenant.post("/v1/webhooks/replays", { states, filter: {} });
  expect(status).toBe(202);
  expect(body).toMatchObject({ state: "RUNNING", total: LISTED_FIRST, listing: true, done: 0 });
});

test("a dry run counts them, and says so if it does not compare all", async () => {
  const count = { filter: {}, dry_run: true };
  expect((await tenant.post(REPLAY, count)).body).toEqual({ dry_run: true, total: LETTERS });
  // One more than are compared.
  await owner.query(
    `SET session_replication_role = replica;
      INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, created_at, expires_at)
      SELECT day, id || n, tenant_id, event_id, event_type, endpoint_id, state, created_at, expires_at
      FROM deliveries, generate_series(1, ${COMPARED_MAX / LETTERS}) n LIMIT ${COMPARED_MAX - LETTERS + 1}`,
  );
  const { body } = await tenant.post(REPLAY, count);
  expect(body).toEqual({ dry_run: true, total: COMPARED_MAX, at_least: true });
});

test("the outcomes of a job with more items are those of its first 100,000", async () => {
  const { body } = await tenant.post(REPLAY, { filter: { event_type: "other.type" } });
  const path = `/v1/webhooks/replays/${String(body["id"])}`;
  const more = OUTCOMES_MAX + 500;
  await owner.query(
    `INSERT INTO replay_items (job_id, position, tenant_id, day, delivery_id, cycle, result)
      SELECT $1, row_number() OVER (ORDER BY id), tenant_id, day, id, cycle, 'attempted' FROM deliveries ORDER BY id LIMIT $2`,
    [body["id"], more],
  );
  await owner.query("UPDATE replay_jobs SET total = $2 WHERE id = $1", [body["id"], OUTCOMES_MAX]);
  const counts = { delivered: 0, retrying: 0, failed: OUTCOMES_MAX, cancelled: 0, waiting: 0 };
  expect((await tenant.get(`${path}/outcomes`)).body).toEqual(counts);
  await owner.query("UPDATE replay_jobs SET total = $2 WHERE id = $1", [body["id"], more]);
  expect((await tenant.get(`${path}/outcomes`)).body).toEqual({ ...counts, counted: OUTCOMES_MAX });
});
