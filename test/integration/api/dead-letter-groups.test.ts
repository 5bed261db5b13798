/** The counts of the dead-letter queue, its export, and the events that report on it. */
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dropDay } from "#webhooks/retention/drop-day.ts";
import { useSharedApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import {
  createEndpoint,
  createTenant,
  expectRefusal,
  type Json,
  listAll,
  publish,
  rows,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const DLQ = "/v1/webhooks/dlq";
const api = useSharedApi({ worker: true });
let database: Client;

beforeAll(async () => {
  database = new Client({ connectionString: api.database.adminUrl });
  await database.connect();
});
afterAll(async () => {
  await database.end();
});

/** Returns the expected groups, counted from the rows themselves. */
async function counted(tenant: Tenant): Promise<Json[]> {
  const found = await database.query<Json>(
    `SELECT endpoint_id, reason, last_error, count(*)::int AS count FROM deliveries
      WHERE tenant_id = $1 AND state = 'DEAD_LETTERED' GROUP BY 1, 2, 3 ORDER BY 1, 2, coalesce(last_error, '')`,
    [tenant.tenantId],
  );
  return found.rows;
}

async function expectExact(tenant: Tenant): Promise<void> {
  expect(await listAll(tenant, `${DLQ}/groups`, 2)).toEqual(await counted(tenant));
}

/** Waits until the tenant's recorded changes are folded into the counts. */
async function untilFolded({ tenantId }: Tenant): Promise<void> {
  const changes = "SELECT FROM dead_letter_changes WHERE tenant_id = $1 LIMIT 1";
  await eventually(
    async () => (await database.query(changes, [tenantId])).rowCount === 0,
    "the changes to be folded",
  );
}

describe("the queue", () => {
  /** Creates letters that die the given numbers of seconds after the first instant. Returns their ids. */
  async function lettersThatDied(
    tenant: Tenant,
    endpointId: string,
    seconds: readonly number[],
  ): Promise<string[]> {
    const { tenantId } = tenant;
    const ids = await seedDeadLetters(database, { tenantId, endpointId, count: seconds.length });
    await database.query(
      `UPDATE deliveries d SET dead_lettered_at = now() - interval '1 day' + m.after * interval '1 second',
          expires_at = now() + interval '6 days' + m.after * interval '1 second'
        FROM unnest($1::text[], $2::float8[]) AS m(id, after) WHERE d.id = m.id`,
      [ids, seconds],
    );
    return ids;
  }

  test("is in the order of death, across pages, days, filters and the export", async () => {
    const tenant = await createTenant(api);
    const [{ id: one }, { id: two }] = [await createEndpoint(api, tenant), await createEndpoint(api, tenant)];
    // Two die within the same millisecond, and two at the same instant.
    const [a, b, c, d] = await lettersThatDied(tenant, one, [40, 10, 10.000_001, 30]);
    const [e, f] = await lettersThatDied(tenant, two, [30, 50]);
    const idsOf = (found: readonly Json[]): unknown[] => found.map(({ id }) => id);
    const [later, earlier] = [String(d), String(e)].toSorted((one, other) => (one < other ? 1 : -1));
    expect(idsOf(await listAll(tenant, DLQ, 2))).toEqual([f, a, later, earlier, c, b]);
    expect(idsOf(await listAll(tenant, `${DLQ}?endpoint_id=${one}`, 1))).toEqual([a, d, c, b]);
    expect(idsOf(await listAll(tenant, `${DLQ}?last_error=status`, 4))).toEqual([f, a, later, earlier, c, b]);
    const exported = await tenant.get(`${DLQ}/export`);
    const lines = exported.text.trim().split("\n");
    expect(lines.map((line) => (JSON.parse(line) as Json)["id"])).toEqual([f, a, later, earlier, c, b]);
  });

  test("tells its length and its age, of all endpoints and of one", async () => {
    const tenant = await createTenant(api);
    expect((await tenant.get(`${DLQ}/summary`)).body).toEqual({
      total: 0,
      oldest_at: null,
      first_expires_at: null,
    });
    const [{ id: one }, { id: two }] = [await createEndpoint(api, tenant), await createEndpoint(api, tenant)];
    const ids = await lettersThatDied(tenant, one, [40, 10]);
    await lettersThatDied(tenant, two, [30]);
    const oldest = (await tenant.get(`${DLQ}/${ids[1]}`)).body;
    expect((await tenant.get(`${DLQ}/summary`)).body).toEqual({
      total: 3,
      oldest_at: oldest["dead_lettered_at"],
      first_expires_at: oldest["expires_at"],
    });
    expect((await tenant.get(`${DLQ}/summary?endpoint_id=${two}`)).body).toMatchObject({ total: 1 });
    expectRefusal(await tenant.get(`${DLQ}?cursor=bm90`), 400, "INVALID_REQUEST");
  });
});

describe("groups", () => {
  test("are exact however dead letters come and go: replayed, cancelled, expired, erased, moved", async () => {
    const tenant = await createTenant(api);
    const { tenantId } = tenant;
    const { id: one } = await createEndpoint(api, tenant);
    const { id: two } = await createEndpoint(api, tenant, { state: "DISABLED" });
    const seed = async (endpointId: string, count: number, error: string): Promise<string[]> =>
      await seedDeadLetters(database, { tenantId, endpointId, count, error });
    const failed = await seed(one, 20, "status");
    await seed(one, 5, "timeout");
    await seed(two, 4, "tls");
    const event = await publish(tenant);
    await expectExact(tenant);
    await untilFolded(tenant);
    await expectExact(tenant);
    expect(rows(await tenant.get(`${DLQ}/groups?endpoint_id=${two}`))).toMatchObject([
      { endpoint_id: two, reason: "attempts_exhausted", last_error: "tls", count: 4 },
      { endpoint_id: two, reason: "endpoint_disabled", last_error: null, count: 1 },
    ]);
    await tenant.post(`${DLQ}/${failed[0] ?? ""}/replay`);
    await tenant.post(`/v1/webhooks/deliveries/${failed[1] ?? ""}/cancel`);
    await tenant.send("DELETE", `/v1/events/${event}/content`);
    await sql(api, "UPDATE deliveries SET expires_at = now() WHERE id = $1", [failed[2]]);
    await eventually(
      async () =>
        (await tenant.get(`/v1/webhooks/deliveries/${failed[2] ?? ""}`)).body["state"] === "EXPIRED",
      "the dead letter to expire",
    );
    const { body: job } = await tenant.post(`${DLQ}/replay`, { filter: { last_error: "timeout" } });
    await eventually(
      async () =>
        (await tenant.get(`/v1/webhooks/replays/${String(job["id"])}`)).body["state"] === "COMPLETED",
      "the replay to complete",
    );
    await eventually(async () => {
      await expectExact(tenant);
      return true;
    }, "exact groups");
    await untilFolded(tenant);
    await expectExact(tenant);
  });

  test("stay exact when a day is dropped and its open dead letters move", async () => {
    const tenant = await createTenant(api);
    const { id } = await createEndpoint(api, tenant);
    const atMs = Date.now() - 20 * 86_400_000;
    const day = new Date(atMs).toISOString().slice(0, 10);
    await database.query("SELECT ensure_day_partitions($1, 1)", [day]);
    await seedDeadLetters(database, { tenantId: tenant.tenantId, endpointId: id, count: 3, atMs });
    await seedDeadLetters(database, {
      tenantId: tenant.tenantId,
      endpointId: id,
      count: 2,
      atMs,
      error: "dns",
      expiresInMs: -1_000,
    });
    expect(await dropDay({ timers: machineTimers, pool: database, now: new Date() }, day)).toBe(true);
    expect(rows(await tenant.get(`${DLQ}/groups`))).toMatchObject([{ last_error: "status", count: 3 }]);
    await expectExact(tenant);
  });
});

describe("an export", () => {
  test("contains every dead letter that matches the filters exactly once, as the list shows it", async () => {
    const tenant = await createTenant(api);
    const { id } = await createEndpoint(api, tenant);
    const { tenantId } = tenant;
    await seedDeadLetters(database, { tenantId, endpointId: id, count: 250 });
    await seedDeadLetters(database, { tenantId, endpointId: id, count: 3, error: "dns" });
    // A worker puts each letter into a workflow, which the export and the list both name.
    const free = "SELECT FROM deliveries WHERE tenant_id = $1 AND carrier IS NULL LIMIT 1";
    await eventually(
      async () => (await database.query(free, [tenantId])).rowCount === 0,
      "a carrier of each",
    );
    const answer = await tenant.get(`${DLQ}/export?last_error=status`);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("application/x-ndjson");
    const lines = answer.text.split("\n");
    expect(lines.pop()).toBe("");
    expect(lines.map((line) => JSON.parse(line) as Json)).toEqual(
      await listAll(tenant, `${DLQ}?last_error=status`, 100),
    );
    expect(lines).toHaveLength(250);
  });

  test("is rejected while two others run, and accepted when one of them ends", async () => {
    const tenant = await createTenant(api);
    const { id } = await createEndpoint(api, tenant);
    // More than the buffers of a connection hold.
    await seedDeadLetters(database, { tenantId: tenant.tenantId, endpointId: id, count: 20_000 });
    const stop = new AbortController();
    const headers = { authorization: `Bearer ${tenant.token}`, "accept-encoding": "identity" };
    const start = async (): Promise<Response | undefined> => {
      const answer = await fetch(`${api.publicUrl}${DLQ}/export`, { headers, signal: stop.signal });
      // A process that cannot hear revocations.
      return answer.status === 503 ? undefined : answer;
    };
    // Nobody reads these responses, so both exports stay open.
    const open = await Promise.all([1, 2].map(async () => await eventually(start, "an export")));
    expect(open.map(({ status }) => status)).toEqual([200, 200]);
    expectRefusal(await tenant.get(`${DLQ}/export`), 429, "RATE_LIMITED");
    stop.abort();
    await eventually(
      async () => (await tenant.get(`${DLQ}/export?last_error=dns`)).status === 200,
      "a free export slot",
    );
  });
});

describe("a tenant gets an event", () => {
  interface Subscribed {
    readonly tenant: Tenant;
    readonly endpoint: string;
    readonly dataOf: (type: string) => Promise<readonly Json[]>;
  }

  async function subscribed(): Promise<Subscribed> {
    const tenant = await createTenant(api);
    const { id: endpoint } = await createEndpoint(api, tenant);
    await createEndpoint(api, tenant, { events: ["delivery.dead_lettered", "dead_letter.expiring"] });
    const dataOf = async (type: string): Promise<readonly Json[]> =>
      rows(await tenant.get(`/v1/events?event_type=${type}`)).map((event) => event["data"] as Json);
    return { tenant, endpoint, dataOf };
  }

  test("about new dead letters once per endpoint and minute, with at most 100 ids, but never about these events themselves", async () => {
    const { tenant, endpoint, dataOf } = await subscribed();
    const { tenantId } = tenant;
    // A worker folds all of them at once, and so into the notice of one minute.
    await database.query("BEGIN");
    const ids = await seedDeadLetters(database, { tenantId, endpointId: endpoint, count: 120 });
    const [own = ""] = await seedDeadLetters(database, { tenantId, endpointId: endpoint, count: 1 });
    await database.query("COMMIT");
    await untilFolded(tenant);
    // End the minute.
    await database.query("UPDATE dead_letter_notices SET due_at = now() WHERE tenant_id = $1", [tenantId]);
    const notices = await eventually(async () => {
      const found = await dataOf("delivery.dead_lettered");
      const sum = found.map(({ count }) => Number(count)).reduce((a, b) => a + b, 0);
      return sum === 121 ? found : undefined;
    }, "the notices");
    const named = notices.flatMap((data) => data["delivery_ids"] as string[]);
    expect(new Set([...ids, own])).toEqual(new Set([...ids, own, ...named]));
    expect(named.length).toBeLessThanOrEqual(100 * notices.length);
    expect(notices).toMatchObject([{ endpoint_id: endpoint }]);

    await sql(
      api,
      `UPDATE deliveries SET state = 'DEAD_LETTERED', reason = 'attempts_exhausted', dead_lettered_at = now(),
        expires_at = now() + interval '7 days' WHERE tenant_id = $1 AND event_type = 'delivery.dead_lettered'`,
      [tenantId],
    );
    await untilFolded(tenant);
    expect(
      (await database.query("SELECT FROM dead_letter_notices WHERE tenant_id = $1", [tenantId])).rowCount,
    ).toBe(0);
  });

  test("about dead letters that expire within a day, once", async () => {
    const { tenant, endpoint, dataOf } = await subscribed();
    const { tenantId } = tenant;
    const hour = 3_600_000;
    await seedDeadLetters(database, { tenantId, endpointId: endpoint, count: 3, expiresInMs: 23 * hour });
    await seedDeadLetters(database, { tenantId, endpointId: endpoint, count: 2, expiresInMs: 26 * hour });
    await database.query("UPDATE dead_letter_watch SET told_until = '-infinity'");
    const [warning] = await eventually(async () => {
      const found = await dataOf("dead_letter.expiring");
      return found.length > 0 ? found : undefined;
    }, "the warning");
    expect(warning).toMatchObject({ endpoint_id: endpoint, count: 3 });
    expect(warning?.["delivery_ids"]).toHaveLength(3);
    expect(await dataOf("dead_letter.expiring")).toHaveLength(1);
  });
});
