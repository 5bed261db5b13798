/** Publishing to thousands of endpoints: the cost grows with their number, and others do not pay it. */
import { randomBytes } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import type { PoolClient } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { createPool, type Pool, type Queryable } from "#database/pool.ts";
import { insertEvents } from "#database/repositories/webhooks/events.ts";
import { matchEndpoints, type MatchedType } from "#database/repositories/webhooks/matches.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { newId } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { ContentKeys } from "#webhooks/ingest/content-keys.ts";
import { type AcceptedEvent, Ingest } from "#webhooks/ingest/ingest.ts";
import { publishOwnEvent } from "#webhooks/ingest/own-event.ts";
import { eventually } from "#test/support/eventually.ts";
import { testKeyring } from "#test/support/keyring.ts";
import { useWorld } from "#test/support/world.ts";

const world = useWorld();
const FILTER = '{"data.kind": "wanted"}';
const now = new Date();

/** Returns a tenant whose endpoints take `types`. */
async function tenantWith(count: number, types: readonly string[], filter: string | null): Promise<string> {
  const tenantId = await world.current.createTenant();
  const ids = Array.from({ length: count }, () => newId("endpoint", Date.now(), randomBytes));
  await world.current.sql.query(
    `INSERT INTO endpoints (id, tenant_id, url, event_types, state, verification_state, verification_requested_at,
        created_at, updated_at, filter)
      SELECT id, $2, 'https://receiver.example/', $3, 'ACTIVE', 'VERIFIED', $4, $4, $4, $5 FROM unnest($1::text[]) AS id`,
    [ids, tenantId, types, now, filter],
  );
  return tenantId;
}

interface Plan {
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly "Rows Removed by Join Filter"?: number;
  readonly Plans?: readonly Plan[];
}

/** Returns the number of rows that a plan's steps make or refuse. */
function rowsOf(plan: Plan): number {
  const refused = (plan["Rows Removed by Filter"] ?? 0) + (plan["Rows Removed by Join Filter"] ?? 0);
  const own = (plan["Actual Rows"] + refused) * plan["Actual Loops"];
  return (plan.Plans ?? []).reduce((sum, part) => sum + rowsOf(part), own);
}

/** Returns how many rows the statements of `work` handle. All that it writes is rolled back. */
async function costOf(work: (db: Queryable) => Promise<unknown>): Promise<number> {
  const client: PoolClient = await world.current.sql.connect();
  let cost = 0;
  const explaining = {
    query: async (statement: string | { text: string; values: unknown[] }, values: unknown[] = []) => {
      const { text, values: given } =
        typeof statement === "string" ? { text: statement, values } : { ...statement };
      await client.query("SAVEPOINT before");
      const { rows } = await client.query<{ "QUERY PLAN": readonly [{ readonly Plan: Plan }] }>(
        `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`,
        given,
      );
      cost += rows.reduce((sum, row) => sum + rowsOf(row["QUERY PLAN"][0].Plan), 0);
      await client.query("ROLLBACK TO before");
      return await client.query(text, given);
    },
  };
  try {
    await client.query("BEGIN");
    await work(explaining as unknown as Queryable);
    return cost;
  } finally {
    await client.query("ROLLBACK");
    client.release();
  }
}

const TYPES = Array.from({ length: 20 }, (_, index) => `some.type${index}`);

async function match(db: Queryable, tenantId: string, types: readonly string[]): Promise<void> {
  await matchEndpoints(
    db,
    types.map((type) => ({ tenantId, type })),
  );
}

/** Inserts an event without deliveries. What it knows of the endpoints is current, but read at another version. */
async function compare(db: Queryable, tenantId: string, _: unknown, version?: string): Promise<void> {
  const [found] = await matchEndpoints(world.current.sql, [{ tenantId, type: "some.type" }]);
  const known = { ...(found as MatchedType), version: version ?? (found as MatchedType).version };
  const times = { now, keysAfter: now, signedKeysAfter: now, expiresAt: now };
  const event = {
    id: newId("event", now.getTime(), randomBytes),
    tenantId,
    type: "some.type",
    content: Buffer.alloc(1),
    sourceId: null,
    occurredAt: now,
    keys: [],
    deliveries: [],
  };
  const inserted = await insertEvents(db, [event], times, { expected: [known], comparesMatches: true });
  expect(inserted.inserted.size).toBe(1);
}

/** The same after a change of an endpoint of another type. */
async function compareAgain(db: Queryable, tenantId: string, types: unknown): Promise<void> {
  await compare(db, tenantId, types, "earlier");
}

async function publishOwn(db: Queryable, tenantId: string): Promise<void> {
  const keyring = testKeyring(world.current.config.kek ?? Buffer.alloc(0));
  const sources = { keyring, clock: { now: () => now.getTime() }, randomBytes, deadLetterMs: 1_000 };
  const data = '{"kind": "wanted"}';
  await publishOwnEvent(db, { tenantId, type: "endpoint.disabled", data }, sources);
}

test.each([
  ["a type's match", ["some.type"], null, match],
  ["the match of *", ["*"], null, match],
  ["the match of many types", ["*"], null, async (db: Queryable, id: string) => await match(db, id, TYPES)],
  [
    "the match of other types",
    ["a.b"],
    null,
    async (db: Queryable, id: string) => await match(db, id, TYPES),
  ],
  ["a match with filters", ["some.type"], FILTER, match],
  ["the insert's comparison after a change", ["some.type"], null, compareAgain],
  ["an event of the service", ["*"], null, publishOwn],
  ["an event of the service with filters", ["*"], FILTER, publishOwn],
] as const)(
  "%s costs less than three times as much at twice the endpoints",
  async (_, types, filter, work) => {
    const [few, many] = [await tenantWith(1_000, types, filter), await tenantWith(2_000, types, filter)];
    await world.current.sql.query("ANALYZE endpoints");
    const costs = [];
    for (const tenantId of [few, many]) {
      costs.push(await costOf(async (db) => await work(db, tenantId, ["some.type"])));
    }
    expect(costs[1]).toBeGreaterThan(2_000);
    expect(costs[1]).toBeLessThan(3 * (costs[0] as number));
  },
);

test.each([
  ["of a type", ["some.type"], null],
  ["of *", ["*"], null],
  ["with filters", ["some.type"], FILTER],
])(
  "an insert handles no more rows at any number of endpoints %s, while none changes",
  async (_, types, filter) => {
    const costs = [];
    for (const count of [1, 1_000, 4_000]) {
      const tenantId = await tenantWith(count, types, filter);
      costs.push(await costOf(async (db) => await compare(db, tenantId, types)));
    }
    expect(costs).toEqual(Array(3).fill(costs[0]));
  },
);

async function accept(
  tenantId: string,
  type = "some.type",
  ingest = world.current.ingest,
): Promise<AcceptedEvent> {
  const rest = { data: "{}", sourceId: null, occurredAt: null, keys: [] };
  return await ingest.accept({ tenantId, type, ...rest });
}

test("events to 4,000 endpoints are accepted, and those of other tenants beside them", async () => {
  const large = await tenantWith(4_000, ["some.type"], null);
  const small = await tenantWith(1, ["some.type"], null);
  const publishing = Array.from({ length: 4 }, async () => await accept(large));
  for (let round = 0; round < 20; round += 1) {
    expect(await accept(small)).toMatchObject({ deliveries: 1 });
  }
  expect((await Promise.all(publishing)).map(({ deliveries }) => deliveries)).toEqual(Array(4).fill(4_000));
});

test("a batch to many endpoints is accepted in parts of at most 10,000 rows, in order", async () => {
  const large = await tenantWith(1_500, ["*"], null);
  const types = ["some.type", "other.type", "third.type"];
  const batch = Array.from({ length: 30 }, async (_, index) => await accept(large, types[index % 3]));
  const accepted = await Promise.all(batch);
  expect(accepted.every(({ deliveries }) => deliveries === 1_500)).toBe(true);
  const { rows } = await world.current.sql.query<{ id: string; part: string }>(
    "SELECT id, xmin::text AS part FROM events WHERE tenant_id = $1",
    [large],
  );
  const partOf = new Map(rows.map(({ id, part }) => [id, part]));
  const order = accepted.map(({ id }) => partOf.get(id) as string);
  const events = Map.groupBy(order, (part) => part);
  expect(Math.max(...[...events.values()].map(({ length }) => length))).toBeLessThanOrEqual(6);
  // Each part ends before the next one begins.
  expect(order.filter((part, index) => part !== order[index - 1])).toHaveLength(events.size);
  const times = accepted.map(({ createdAt }) => createdAt.getTime());
  expect(times).toEqual(times.toSorted((left, right) => left - right));
});

/** Adds the condition `holds` to what ingest reads of a tenant's endpoints. */
async function withPolicy(tenantId: string, holds: string, work: () => Promise<void>): Promise<void> {
  const { sql } = world.current;
  await sql.query(
    `CREATE POLICY tested ON endpoints AS RESTRICTIVE FOR SELECT TO signet_ingest
      USING (CASE WHEN tenant_id = '${tenantId}' THEN ${holds} ELSE true END)`,
  );
  try {
    await work();
  } finally {
    await sql.query("DROP POLICY tested ON endpoints");
  }
}

test("a match that is slow delays its own tenant alone, and another tenant's new types are matched", async () => {
  const slow = await tenantWith(1, ["*"], null);
  const other = await tenantWith(1, ["*"], null);
  const { sql } = world.current;
  const holder = await sql.connect();
  await holder.query("SELECT pg_advisory_lock(4711)");
  const waits = "pg_advisory_xact_lock(4711)::text = ''";
  await withPolicy(slow, waits, async () => {
    const types = Array.from({ length: 20 }, (_, index) => `slow.type${index}`);
    const publishing = Promise.all(types.map(async (type) => await accept(slow, type)));
    await eventually(async () => {
      const { rowCount } = await sql.query(
        "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
      );
      return rowCount === 1;
    }, "the slow match");
    for (const type of types) {
      expect(await accept(other, type)).toMatchObject({ deliveries: 1 });
    }
    await holder.query("SELECT pg_advisory_unlock(4711)");
    expect((await publishing).map(({ deliveries }) => deliveries)).toEqual(types.map(() => 1));
  });
  holder.release();
});

test("a match that fails refuses its own tenant's events alone, until it no longer does", async () => {
  const failing = await tenantWith(1, ["*"], null);
  const other = await tenantWith(1, ["*"], null);
  await withPolicy(failing, "1 / (length(id) - length(id)) = 1", async () => {
    const outcomes = await Promise.allSettled(
      [failing, other, failing, other].map(async (tenantId) => await accept(tenantId, "new.type")),
    );
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "rejected", "fulfilled"]);
  });
  expect(await accept(failing, "new.type")).toMatchObject({ deliveries: 1 });
});

/** Returns an ingest with a pool of its own, which ends with the test. */
function ownIngest(keyring: Pick<ReturnType<typeof testKeyring>, "contentRoot">): {
  ingest: Ingest;
  pool: Pool;
} {
  const log = createLogger({ level: "silent" });
  const pool = createPool({ url: world.current.config.databaseUrl, role: "signet_ingest", max: 5, log });
  onTestFinished(async () => await pool.end());
  const ingest = new Ingest({
    timers: machineTimers,
    pool,
    keys: new ContentKeys({ keyring, clock: systemClock }),
    clock: systemClock,
    randomBytes,
    keyBytes: randomBytes,
    deadLetterMs: 1_000,
  });
  return { ingest, pool };
}

test("a content key that is slow to open, or cannot be opened, costs its own tenant alone", async () => {
  const [slow, failing, other] = [
    await tenantWith(1, ["*"], null),
    await tenantWith(1, ["*"], null),
    await tenantWith(1, ["*"], null),
  ];
  const { config } = world.current;
  const keyring = testKeyring(config.kek ?? Buffer.alloc(0));
  const opened = Promise.withResolvers<undefined>();
  const asked = Promise.withResolvers<undefined>();
  const contentRoot: typeof keyring.contentRoot = async (wrapped, tenantId) => {
    if (tenantId === failing) {
      throw new Error("the key is disabled");
    }
    if (tenantId === slow) {
      asked.resolve(undefined);
      await opened.promise;
    }
    return await keyring.contentRoot(wrapped, tenantId);
  };
  const { ingest } = ownIngest({ contentRoot });
  const publishing = accept(slow, "some.type", ingest);
  const refused = Promise.allSettled([accept(failing, "some.type", ingest)]);
  await asked.promise;
  expect(await accept(other, "some.type", ingest)).toMatchObject({ deliveries: 1 });
  expect(await refused).toEqual([{ status: "rejected", reason: new Error("the key is disabled") }]);
  opened.resolve(undefined);
  expect(await publishing).toMatchObject({ deliveries: 1 });
});

test("after a change of another type, a match is compared once and not read again", async () => {
  const tenantId = await tenantWith(1, ["some.type"], null);
  const { config, sql } = world.current;
  const { ingest, pool } = ownIngest(testKeyring(config.kek ?? Buffer.alloc(0)));
  const query = pool.query.bind(pool);
  const asked: string[] = [];
  pool.query = (async (statement: { readonly name: string; readonly text: string; values: unknown[] }) => {
    asked.push(statement.name);
    return await query(statement);
  }) as typeof pool.query;
  const askedBy = async (): Promise<readonly string[]> => {
    asked.length = 0;
    expect(await accept(tenantId, "some.type", ingest)).toMatchObject({ deliveries: 1 });
    return asked.filter((name) => /^(match-endpoints|insert-events)/.test(name));
  };
  expect(await askedBy()).toEqual(["match-endpoints", "insert-events"]);
  expect(await askedBy()).toEqual(["insert-events"]);
  await sql.query(
    "INSERT INTO event_types (tenant_id, name, examples, created_at, updated_at) VALUES ($1, 'other.type', '[]', now(), now())",
    [tenantId],
  );
  expect(await askedBy()).toEqual(["insert-events", "insert-events-compared"]);
  expect(await askedBy()).toEqual(["insert-events"]);
  await sql.query("UPDATE endpoints SET state = 'DISABLED' WHERE tenant_id = $1", [tenantId]);
  expect(await askedBy()).toEqual([
    "insert-events",
    "insert-events-compared",
    "match-endpoints",
    "insert-events",
  ]);
});

test("1,000 events of 500 types are accepted while endpoints change", async () => {
  const tenantId = await tenantWith(50, ["*"], null);
  const ended = new AbortController();
  let changes = 0;
  const changing = (async () => {
    while (!ended.signal.aborted) {
      await world.current.sql.query(
        `UPDATE endpoints SET state = CASE state WHEN 'ACTIVE' THEN 'DISABLED' ELSE 'ACTIVE' END
          WHERE id = (SELECT max(id) FROM endpoints WHERE tenant_id = $1)`,
        [tenantId],
      );
      changes += 1;
      // Eight changes a second.
      await setTimeout(125);
    }
  })();
  const batch = Array.from(
    { length: 1_000 },
    async (_, index) => await accept(tenantId, `type.t${index % 500}`),
  );
  const accepted = await Promise.all(batch).finally(() => ended.abort());
  await changing;
  expect(changes).toBeGreaterThan(1);
  expect(new Set(accepted.map(({ deliveries }) => deliveries))).toEqual(new Set([50]));
  const { rows } = await world.current.sql.query<{ stored: number }>(
    "SELECT count(*)::int AS stored FROM deliveries WHERE tenant_id = $1",
    [tenantId],
  );
  expect(rows).toEqual([{ stored: 50_000 }]);
});

test("beside others, an insert pauses among its deliveries, and commits them at once", async () => {
  const { sql } = world.current;
  const tenantId = await tenantWith(1, ["some.wide"], null);
  const id = newId("event", now.getTime(), randomBytes);
  const deliveries = Array.from({ length: 250 }, () => ({
    id: newId("delivery", now.getTime(), randomBytes),
    endpointId: "ep_x",
    state: "QUEUED" as const,
  }));
  const event = {
    id,
    tenantId,
    type: "some.wide",
    content: Buffer.alloc(1),
    sourceId: null,
    occurredAt: now,
  };
  const insert = async (pauseMs: number): Promise<ReadonlySet<string>> => {
    const times = { now, keysAfter: now, signedKeysAfter: now, expiresAt: now };
    return (await insertEvents(sql, [{ ...event, keys: [], deliveries }], times, { pauseMs })).inserted;
  };
  const stored = async (): Promise<{ size: number; seen: number; asleep: number | null }> => {
    const { rows } = await sql.query<{ size: number; seen: number; asleep: number | null }>(
      `SELECT (SELECT sum(pg_relation_size(inhrelid))::int FROM pg_inherits WHERE inhparent = 'deliveries'::regclass) AS size,
        (SELECT count(*)::int FROM deliveries WHERE event_id = $1) AS seen,
        (SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep') AS asleep`,
      [id],
    );
    return rows[0] as (typeof rows)[0];
  };
  const before = await stored();
  // Longer than the test, so that it is seen for certain.
  const ended = insert(600_000).catch((error: unknown) => error);
  const meanwhile = await eventually(async () => {
    const each = await stored();
    return each.asleep !== null && each;
  }, "the pause");
  await sql.query("SELECT pg_cancel_backend($1)", [meanwhile.asleep]);
  expect(await ended).toMatchObject({ code: "57014" });
  expect(meanwhile.seen).toBe(0);
  expect(meanwhile.size).toBeGreaterThan(before.size);
  expect(await insert(1)).toEqual(new Set([id]));
  expect((await stored()).seen).toBe(250);
});
