import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPool, type Pool, type Queryable } from "#database/pool.ts";
import {
  type AttemptOutcome,
  loadForAttempt,
  recordOutcomes,
} from "#database/repositories/webhooks/attempts.ts";
import {
  type ClaimedFirst,
  claimFirst,
  claimNamed,
  findOtherDays,
  findUnstartedLists,
  reclaimUnstarted,
  removeUnstartedLists,
} from "#database/repositories/webhooks/claims.ts";
import { DAY_MS, idAt, newId, utcDay } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { useWorld } from "../support/world.ts";
import { explaining } from "#test/support/statements/explain.ts";

// List sizes do not matter here: a claim is restarted as it was made, and the tests make the lists themselves.
// No worker runs: the tests claim like a worker that has died since.
const made = useWorld();
let pool: Pool;

beforeAll(() => {
  const { config } = made.current;
  const log = createLogger({ level: config.logLevel });
  pool = createPool({ url: config.databaseUrl, role: "signet_worker", max: 4, log });
});

afterAll(async () => {
  await pool.end();
});

/** A day may begin between two tests. */
const days = (): [string, string] => [utcDay(Date.now() - DAY_MS), utcDay(Date.now())];
const CLAIM = {
  atLeast: 1,
  limit: 64,
  alone: true,
  exceptEndpoints: [],
  exceptTenants: [],
  afterTenant: "",
  afterDelivery: "",
  worker: "key_me",
};

/** Claims deliveries together 20 seconds ago, without starting their workflow. */
async function claimAndDie(count: number): Promise<{ carrier: string; ids: string[] }> {
  const world = made.current;
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, "http://127.0.0.1:1");
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const { deliveries } = await world.publish(tenant);
    ids.push(deliveries[0]?.id ?? "");
  }
  const carrier = newId("batch", Date.now(), randomBytes);
  await world.sql.query(
    "UPDATE deliveries SET carrier = $1, claimed_at = now() - interval '20 seconds' WHERE id = ANY ($2)",
    [carrier, ids],
  );
  return { carrier, ids: ids.toSorted() };
}

async function sweep(): Promise<Map<string, string[]>> {
  const now = Date.now();
  const claims = await reclaimUnstarted(pool, {
    before: new Date(now - 15_000),
    now: new Date(now),
    limit: 500,
  });
  const found = new Map<string, string[]>();
  for (const { carrier, delivery_id: deliveryId } of claims) {
    found.set(carrier, [...(found.get(carrier) ?? []), deliveryId].toSorted());
  }
  return found;
}

// First, because the partitions must be as empty as at the start of a day, and never vacuumed.
describe("a first attempt", () => {
  const now = new Date();
  const [yesterday, today] = days();
  const id = newId("delivery", now.getTime(), randomBytes);
  const key = { deliveryId: id, carrier: id, epoch: 1, attempt: 1 };
  const outcome: AttemptOutcome = {
    ...key,
    attemptId: newId("attempt", now.getTime(), randomBytes),
    tenantId: "ten_none",
    cycle: 1,
    startedAt: now,
    durationMs: 1,
    status: 200,
    error: null,
    responseBody: null,
    nextState: "DELIVERED",
    nextAttemptAt: null,
    endedAt: now,
    expiresAt: null,
    leaves: false,
  };
  const carrier = newId("batch", now.getTime(), randomBytes);
  const claim = { ...CLAIM, days: [yesterday, today], carrier, now };

  test.each<[string, first: string | undefined, (db: Queryable) => Promise<unknown>]>([
    ["is claimed", yesterday, async (db) => await claimFirst(db, claim)],
    ["is claimed by id", today, async (db) => await claimNamed(db, { ...claim, ids: [id] })],
    ["is loaded", today, async (db) => await loadForAttempt(db, [key])],
    ["is recorded", today, async (db) => await recordOutcomes(db, [outcome])],
  ])("%s by its key, without the partitions of earlier days", async (_, first = "", run) => {
    await made.current.sql.query("SELECT ensure_day_partitions((now() - interval '29 days')::date, 29)");
    const plan: string[] = [];
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      await run(explaining(client, plan));
    } finally {
      client.release(true);
    }
    const scans = plan.flatMap((line, index) => {
      const [, table, day] = / on (deliveries|events|attempts)_(\d{8}|default)\b/.exec(line) ?? [];
      // An UPDATE names its partitions before the scan that finds them.
      return table === undefined || line.includes("Update on")
        ? []
        : [{ table, day, by: plan[index + 1] ?? "" }];
    });
    expect(scans.length).toBeGreaterThanOrEqual(3);
    const earliest = first.replaceAll("-", "");
    expect(scans.filter(({ day = "" }) => day < earliest)).toEqual([]);
    // The claim's search goes through the waiting deliveries of a tenant.
    expect(
      scans.filter(
        ({ by }) => !/Index Cond: .*(?:\b(?:id|delivery_id|tenant_id) [=>]|ROW\(tenant_id, id\) >)/.test(by),
      ),
    ).toEqual([]);
  });
});

describe("a claim whose workflow was never started", () => {
  test("is found whole by one of several concurrent sweeps, and by no later one within the same period", async () => {
    const { carrier, ids } = await claimAndDie(5);
    const sweeps = await Promise.all([sweep(), sweep(), sweep()]);
    // Sweeps that collided have skipped it; the next one finds it.
    const found = [...sweeps, await sweep()].flatMap((each) => each.get(carrier) ?? []);
    expect(found).toEqual(ids);
    expect((await sweep()).get(carrier)).toBeUndefined();
  });

  test("is skipped as a whole while another transaction locks one of its members", async () => {
    const { carrier, ids } = await claimAndDie(5);
    const other = new Client({ connectionString: made.current.config.databaseUrl });
    await other.connect();
    await other.query("SET ROLE signet_worker");
    await other.query("BEGIN");
    await other.query("SELECT id FROM deliveries WHERE id = $1 FOR UPDATE", [ids[2]]);
    expect((await sweep()).get(carrier)).toBeUndefined();
    await other.query("ROLLBACK");
    await other.end();
    expect((await sweep()).get(carrier)).toEqual(ids);
  });
});

/** Claims like a worker of that id. */
async function claimAs(
  worker: string,
  carrier: string,
  alone = true,
  exceptTenants: readonly string[] = [],
): Promise<readonly ClaimedFirst[]> {
  const claim = { ...CLAIM, days: days(), carrier, alone, exceptTenants, worker, now: new Date() };
  const { claimed } = await claimFirst(pool, claim);
  return claimed;
}

test("a claim leaves the deliveries of excepted tenants", async () => {
  const world = made.current;
  const [busy, other] = [await world.createTenant(), await world.createTenant()];
  for (const tenant of [busy, other]) {
    await world.createEndpoint(tenant, "http://127.0.0.1:1");
  }
  await publishTo(busy, 3);
  const ids = await publishTo(other, 2);
  const claimed = await claimAs("key_me", newId("batch", Date.now(), randomBytes), true, [busy]);
  const mine = claimed.filter((member) => member.tenant_id === busy || member.tenant_id === other);
  expect(mine.map((member) => member.delivery_id).toSorted()).toEqual(ids);
  // Further tests claim what they have published.
  expect(await claimAs("key_me", newId("batch", Date.now(), randomBytes))).toHaveLength(3);
});

async function publishTo(tenant: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const { deliveries } = await made.current.publish(tenant);
    ids.push(deliveries[0]?.id ?? "");
  }
  return ids.toSorted();
}

describe("a list whose worker has ended", () => {
  async function unstarted(worker: string, except: readonly string[] = []): Promise<Map<string, string[]>> {
    const openedBefore = new Date(Date.now() + 1_000);
    const lists = await findUnstartedLists(pool, { worker, except, openedBefore, limit: 500 });
    return new Map(
      lists.map(({ carrier, members }) => [carrier, members.map((member) => member.delivery_id)]),
    );
  }

  test("is found with all members of all its claims, also delivered ones, until it is started", async () => {
    const world = made.current;
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, "http://127.0.0.1:1");
    const carrier = newId("batch", Date.now(), randomBytes);
    const first = await publishTo(tenant, 3);
    await claimAs("key_dead", carrier);
    const second = await publishTo(tenant, 2);
    await claimAs("key_dead", carrier, false);
    await world.sql.query("UPDATE deliveries SET state = 'DELIVERED' WHERE id = ANY ($1)", [first]);
    expect((await unstarted("key_other")).get(carrier)).toEqual([...first, ...second].toSorted());
    // Its own worker knows it, unless it has given it up.
    expect((await unstarted("key_dead", [carrier])).has(carrier)).toBe(false);
    expect((await unstarted("key_dead")).get(carrier)).toHaveLength(5);
    // Others leave it to a worker that lives, and the sweep of claims leaves it to this one.
    await world.sql.query("INSERT INTO workers (id, seen_at) VALUES ('key_dead', now())");
    expect((await unstarted("key_other")).has(carrier)).toBe(false);
    await world.sql.query("UPDATE deliveries SET claimed_at = now() - interval '1 hour' WHERE carrier = $1", [
      carrier,
    ]);
    expect((await sweep()).has(carrier)).toBe(false);
    await removeUnstartedLists(pool, [carrier]);
    expect((await unstarted("key_dead")).has(carrier)).toBe(false);
    expect((await sweep()).get(carrier)).toEqual(second);
  });
});

describe("a claim of first attempts", () => {
  test("returns what a separate load returns; a lone delivery is its own carrier", async () => {
    const world = made.current;
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, "http://127.0.0.1:1");
    const [id = ""] = await publishTo(tenant, 1);
    const carrier = newId("batch", Date.now(), randomBytes);
    const [claimed] = await claimAs("key_me", carrier);
    expect(claimed).toMatchObject({ delivery_id: id, carrier: id, epoch: 1 });
    const key = { deliveryId: id, carrier: id, epoch: 1, attempt: 1 };
    expect(claimed?.loaded).toEqual((await loadForAttempt(pool, [key]))[0]);
    await publishTo(tenant, 1);
    expect((await claimAs("key_me", carrier, false)).map((member) => member.carrier)).toEqual([carrier]);
  });

  test("by id returns the same, and skips what no longer waits, is to be left or belongs to a held tenant", async () => {
    const world = made.current;
    const [tenant, held] = [await world.createTenant(), await world.createTenant()];
    const endpoint = await world.createEndpoint(tenant, "http://127.0.0.1:1");
    await world.createEndpoint(held, "http://127.0.0.1:1");
    const byId = async (ids: readonly string[], exceptEndpoints: readonly string[] = []) =>
      await claimNamed(pool, {
        ...CLAIM,
        now: new Date(),
        ids,
        exceptEndpoints,
        carrier: newId("batch", Date.now(), randomBytes),
      });
    const [first = "", second = "", third = ""] = await publishTo(tenant, 3);
    const [ofHeld = ""] = await publishTo(held, 1);
    await world.sql.query("UPDATE tenants SET held_at = now() WHERE id = $1", [held]);
    expect(await byId([first], [endpoint.id])).toEqual([]);
    const [alone, ...none] = await byId([first, ofHeld]);
    expect(none).toEqual([]);
    expect(alone).toMatchObject({ delivery_id: first, carrier: first, epoch: 1 });
    const key = { deliveryId: first, carrier: first, epoch: 1, attempt: 1 };
    expect(alone?.loaded).toEqual((await loadForAttempt(pool, [key]))[0]);
    const others = await byId([first, second, third]);
    expect(others.map((member) => member.delivery_id).toSorted()).toEqual([second, third]);
    expect(new Set(others.map(({ carrier }) => carrier)).size).toBe(1);
    await world.sql.query("UPDATE tenants SET held_at = NULL WHERE id = $1", [held]);
    expect(await claimAs("key_me", newId("batch", Date.now(), randomBytes))).toHaveLength(1);
  });

  test("goes on after 64 tenants of which only deliveries to slow endpoints wait", async () => {
    const world = made.current;
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, "http://127.0.0.1:1");
    const [id = ""] = await publishTo(tenant, 1);
    await world.sql.query(
      `INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, created_at)
        SELECT day, 'dlv_' || lpad(n::text, 24, '0'), 'ten_' || lpad(n::text, 24, '0'), event_id, event_type, 'ep_slow',
          'QUEUED', created_at
        FROM deliveries, generate_series(1, 64) n WHERE id = $1`,
      [id],
    );
    try {
      const claim = { ...CLAIM, days: days(), exceptEndpoints: ["ep_slow"], now: new Date() };
      const carrier = newId("batch", Date.now(), randomBytes);
      const first = await claimFirst(pool, { ...claim, carrier });
      expect(first).toEqual({ claimed: [], more: false, nextTenant: `ten_${"64".padStart(24, "0")}` });
      const second = await claimFirst(pool, { ...claim, carrier, afterTenant: first.nextTenant });
      expect(second.claimed.map((member) => member.delivery_id)).toEqual([id]);
      expect(second.nextTenant).toBe("");
    } finally {
      await world.sql.query("DELETE FROM deliveries WHERE endpoint_id = 'ep_slow'");
    }
  });

  test("and the search for earlier days read the claimed rows only, although the statistics say that nothing waits", async () => {
    const world = made.current;
    const tenant = await world.createTenant();
    const { id: endpoint } = await world.createEndpoint(tenant, "http://127.0.0.1:1");
    const [id = ""] = await publishTo(tenant, 1);
    await world.sql.query("UPDATE deliveries SET state = 'CANCELLED' WHERE carrier IS NULL");
    await world.sql.query("ANALYZE deliveries");
    await world.sql.query(
      `INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, created_at)
        SELECT day, 'dlv_' || lpad(n::text, 24, '0'), tenant_id, event_id, event_type, $2, 'QUEUED', created_at
        FROM deliveries, generate_series(1, 20000) n WHERE id = $1`,
      [id, endpoint],
    );
    const client = await pool.connect();
    const plan: string[] = [];
    try {
      await client.query("BEGIN");
      const explained = explaining(client, plan, ["ANALYZE", "BUFFERS"]);
      const any = {
        ...CLAIM,
        days: days(),
        carrier: newId("batch", Date.now(), randomBytes),
        now: new Date(),
      };
      await claimFirst(explained, any);
      const latest = { exceptEndpoints: [endpoint], afterDelivery: idAt("delivery", Date.now()) };
      await claimFirst(explained, { ...any, ...latest });
      await findOtherDays(explained, days(), 30);
      await client.query("ROLLBACK");
    } finally {
      client.release();
      await world.sql.query("DELETE FROM deliveries WHERE id LIKE 'dlv_0000%'");
    }
    const counts = plan.join("\n").matchAll(/(?:actual .*?rows=|Rows Removed by Filter: )([\d.]+)/g);
    const most = Math.max(...[...counts].map(([, rows]) => Number(rows)));
    expect(most, plan.join("\n")).toBeLessThanOrEqual(256);
  });

  test("commits without waiting for the disk; later commits of its connection wait", async () => {
    const world = made.current;
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, "http://127.0.0.1:1");
    const { deliveries } = await world.publish(tenant);
    const client = await pool.connect();
    try {
      const setting = async (): Promise<unknown> =>
        (await client.query<{ synchronous_commit: string }>("SHOW synchronous_commit")).rows[0]
          ?.synchronous_commit;
      const before = await setting();
      await client.query("BEGIN");
      const { claimed } = await claimFirst(client, {
        days: days(),
        atLeast: 1,
        limit: 64,
        carrier: newId("batch", Date.now(), randomBytes),
        alone: true,
        exceptEndpoints: [],
        exceptTenants: [],
        afterTenant: "",
        afterDelivery: "",
        worker: "wrk",
        now: new Date(),
      });
      expect(claimed.map((member) => member.delivery_id)).toContain(deliveries[0]?.id);
      expect(await setting()).toBe("off");
      await client.query("COMMIT");
      expect(await setting()).toBe(before);
    } finally {
      client.release();
    }
  });

  describe("lost in a PostgreSQL crash after its list was sent", () => {
    const instants = { startedAt: new Date(), endedAt: new Date(), durationMs: 5 };

    /** Creates a delivery without a carrier, then records the outcome that the lost carrier's sender reports. */
    async function sentAndForgotten(
      outcome: Pick<AttemptOutcome, "nextState" | "attempt" | "status">,
    ): Promise<Record<string, unknown>> {
      const world = made.current;
      const tenant = await world.createTenant();
      await world.createEndpoint(tenant, "http://127.0.0.1:1");
      const { deliveries } = await world.publish(tenant);
      const id = deliveries[0]?.id ?? "";
      const dead = outcome.nextState === "DEAD_LETTERED";
      const reported: AttemptOutcome = {
        ...instants,
        ...outcome,
        attemptId: newId("attempt", Date.now(), randomBytes),
        deliveryId: id,
        tenantId: tenant,
        carrier: newId("batch", Date.now(), randomBytes),
        epoch: 1,
        cycle: 1,
        error: outcome.nextState === "DELIVERED" ? null : "status",
        responseBody: null,
        nextAttemptAt: outcome.nextState === "RETRYING" ? new Date() : null,
        expiresAt: dead ? new Date(Date.now() + 604_800_000) : null,
        leaves: outcome.nextState === "RETRYING",
      };
      expect(await recordOutcomes(pool, [reported])).toEqual([true]);
      const { rows } = await world.sql.query<Record<string, unknown>>(
        "SELECT state, carrier, epoch, attempt_count, last_status FROM deliveries WHERE id = $1",
        [id],
      );
      return rows[0] ?? {};
    }

    test("leaves delivered deliveries delivered", async () => {
      expect(await sentAndForgotten({ nextState: "DELIVERED", attempt: 1, status: 200 })).toEqual({
        state: "DELIVERED",
        carrier: null,
        epoch: 1,
        attempt_count: 1,
        last_status: 200,
      });
    });

    test("leaves deliveries dead-lettered after their last attempt", async () => {
      const row = await sentAndForgotten({ nextState: "DEAD_LETTERED", attempt: 17, status: 500 });
      expect(row).toMatchObject({ state: "DEAD_LETTERED", attempt_count: 17, last_status: 500 });
    });

    test("leaves failed deliveries queued; the next claim finds the attempt and continues", async () => {
      const row = await sentAndForgotten({ nextState: "RETRYING", attempt: 1, status: 500 });
      expect(row).toMatchObject({ state: "QUEUED", carrier: null, epoch: 1 });
    });
  });
});
