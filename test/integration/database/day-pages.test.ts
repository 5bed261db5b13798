/**
 * Lists over daily partitions: each page starts where the last one ended, and a deep page costs as much as the first.
 */
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Queryable } from "#database/pool.ts";
import { EXPIRED_AT_ONCE, expireOverdue } from "#database/repositories/webhooks/carriers.ts";
import { foldCounts } from "#database/repositories/webhooks/delivery-counts.ts";
import { listDeliveries } from "#database/repositories/webhooks/deliveries.ts";
import type { DeliveryFilter } from "#database/repositories/webhooks/delivery-filter.ts";
import { readDeliveryHours } from "#database/repositories/webhooks/delivery-hours.ts";
import { listEvents } from "#database/repositories/webhooks/events.ts";
import { findMissedEvents } from "#database/repositories/webhooks/missing-deliveries.ts";
import { useTestApi } from "#test/support/api.ts";
import { provision, type Provisioned } from "#test/support/factories.ts";
import { seedDeadLetters } from "#test/support/seeded-letters.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const DAYS = 3;
const A_DAY = 7;
const MANY = 10_000;
/** An endpoint that received none of these deliveries. */
const IDLE_ENDPOINT = "ep_000000000000000000000000";
const ENDPOINT = "ep_06h04vws2n7q9t0000000000";
/** An endpoint that receives few of many deliveries, and their type. */
const RARE_ENDPOINT = "ep_06h04vws2n7q9t0000000001";
const RARE_TYPE = "rare.type";
const STATES = ["DELIVERED", "QUEUED", "RETRYING", "QUEUED", "CANCELLED", "DEAD_LETTERED"];

const api = useTestApi();
let client: Client;
let few: Provisioned;
let many: Provisioned;
const now = new Date();

async function seed({ tenantId }: Provisioned, count: number, daysAgo: number): Promise<void> {
  const atMs = now.getTime() - daysAgo * DAY_MS;
  await seedDeadLetters(client, { tenantId, endpointId: ENDPOINT, count, atMs });
}

let rare: readonly string[];

/** Inserts a delivery in each state, before the day's other deliveries. */
async function seedRare({ tenantId }: Provisioned): Promise<void> {
  const atMs = now.getTime() - 1000;
  const letters = { tenantId, endpointId: RARE_ENDPOINT, count: STATES.length, atMs };
  rare = await seedDeadLetters(client, letters);
  await client.query(
    "UPDATE events e SET type = $1 FROM deliveries d WHERE e.day = d.day AND e.id = d.event_id AND d.id = ANY ($2)",
    [RARE_TYPE, rare],
  );
  await client.query(
    `UPDATE deliveries d SET event_type = $1, state = s.state,
        carrier = CASE WHEN s.n = 2 THEN s.id END,
        expires_at = CASE WHEN s.state = 'DEAD_LETTERED' THEN d.expires_at END
      FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS s(id, state, n) WHERE d.id = s.id`,
    [RARE_TYPE, rare, STATES],
  );
}

beforeAll(async () => {
  [few, many] = [await provision(api), await provision(api)];
  client = new Client({ connectionString: api.database.adminUrl });
  await client.connect();
  await client.query("SELECT ensure_day_partitions((now() - interval '7 days')::date, 8)");
  for (let day = 0; day < DAYS; day += 1) {
    await seed(few, A_DAY, day);
  }
  await seedRare(many);
  await seed(many, MANY, 0);
  // As the worker does every second.
  await client.query("BEGIN");
  await foldCounts(client, 100_000);
  await client.query("COMMIT");
  await client.query("VACUUM (ANALYZE) events, deliveries, delivery_changes, delivery_counts");
});
afterAll(async () => {
  await client.end();
});

interface Listed {
  readonly id: string;
}

interface PageOf {
  readonly tenantId: string;
  readonly cursor: string | undefined;
  readonly limit: number;
}

const LISTS = {
  deliveries: async (db: Queryable, { tenantId, cursor, limit }: PageOf): Promise<readonly Listed[]> =>
    (await listDeliveries(db, { tenantId, filter: {}, before: cursor, limit, now })).rows,
  "dead letters": async (db: Queryable, { tenantId, cursor, limit }: PageOf): Promise<readonly Listed[]> =>
    (
      await listDeliveries(db, {
        tenantId,
        filter: { state: "DEAD_LETTERED" },
        before: cursor,
        limit,
        now,
      })
    ).rows,
  events: async (db: Queryable, { tenantId, cursor, limit }: PageOf): Promise<readonly Listed[]> =>
    (await listEvents(db, tenantId, { filter: {}, before: cursor, limit })).rows,
  "missed events": async (db: Queryable, { tenantId, cursor, limit }: PageOf): Promise<Listed[]> => {
    const [since, until] = [new Date(now.getTime() - DAYS * DAY_MS), new Date(now.getTime() + 1)];
    const query = { tenantId, endpointId: IDLE_ENDPOINT, eventTypes: ["*"], since, until, limit };
    return await findMissedEvents(db, query, { after: cursor ?? "", withContent: false });
  },
};

describe.each(Object.entries(LISTS))("a list of %s", (_, list) => {
  async function whole(tenantId: string, limit: number): Promise<string[]> {
    const ids: string[] = [];
    for (;;) {
      const page = await list(client, { tenantId, cursor: ids.at(-1), limit });
      ids.push(...page.map(({ id }) => id));
      if (page.length < limit) {
        return ids;
      }
    }
  }

  test("is the same in pages of any size, across days", async () => {
    const ids = await whole(few.tenantId, 100);
    expect(new Set(ids).size).toBe(DAYS * A_DAY);
    expect([ids.toSorted(), ids.toSorted().toReversed()]).toContainEqual(ids);
    for (let limit = 1; limit <= 2 * A_DAY + 1; limit += 1) {
      expect(await whole(few.tenantId, limit)).toEqual(ids);
    }
  });

  test("reads no more of the database for a deep page than for the first", async () => {
    const ids = await whole(many.tenantId, MANY);
    const limit = 100;
    const first = await blocks(
      async (db) => await list(db, { tenantId: many.tenantId, cursor: undefined, limit }),
    );
    const deep = await blocks(
      async (db) => await list(db, { tenantId: many.tenantId, cursor: ids[MANY - 2 * limit], limit }),
    );
    expect(first).toBeGreaterThan(0);
    expect(deep).toBeLessThanOrEqual(first + 20);
  });
});

describe.each([
  ["endpoint", { endpointId: RARE_ENDPOINT }],
  ["event type", { eventType: RARE_TYPE }],
  ["endpoint and event type", { endpointId: RARE_ENDPOINT, eventType: RARE_TYPE }],
])("a list of the deliveries of one %s", (_, filter) => {
  const listRare = async (db: Queryable, before: string | undefined, limit: number): Promise<string[]> => {
    const page = await listDeliveries(db, { tenantId: many.tenantId, filter, before, limit, now });
    return page.rows.map(({ id }) => id);
  };

  test("has them in any state, newest first, in pages of any size", async () => {
    const newestFirst = rare.toReversed();
    for (let limit = 1; limit <= rare.length + 1; limit += 1) {
      for (let start = 0; start < rare.length; start += 1) {
        const page = await listRare(client, start === 0 ? undefined : newestFirst[start - 1], limit);
        expect(page).toEqual(newestFirst.slice(start, start + limit));
      }
    }
  });

  test("does not scan other deliveries", async () => {
    expect(await blocks(async (db) => await listRare(db, undefined, 100))).toBeLessThanOrEqual(100);
  });
});

async function listOfMany(db: Queryable, filter: DeliveryFilter): Promise<readonly Listed[]> {
  const query = { tenantId: many.tenantId, filter, before: undefined, limit: 100, now };
  return (await listDeliveries(db, query)).rows;
}

test.each([...new Set(STATES)])(
  "a list of the %s deliveries of an endpoint does not scan other deliveries",
  async (state) => {
    const read = await blocks(async (db) => {
      const page = await listOfMany(db, { endpointId: RARE_ENDPOINT, state: state as "QUEUED" });
      expect(page).toHaveLength(STATES.filter((each) => each === state).length);
    });
    expect(read).toBeLessThanOrEqual(100);
  },
);

test("a list of the deliveries of one event does not scan other deliveries", async () => {
  const id = rare[0] ?? "";
  const { rows } = await client.query<{ event_id: string }>("SELECT event_id FROM deliveries WHERE id = $1", [
    id,
  ]);
  const read = await blocks(async (db) => {
    const page = await listOfMany(db, { eventId: rows[0]?.event_id ?? "" });
    expect(page.map((delivery) => delivery.id)).toEqual([id]);
  });
  expect(read).toBeLessThanOrEqual(100);
});

test("a list whose filter no index knows reads a part of the history, and goes on after it until its end", async () => {
  const query = { tenantId: many.tenantId, filter: { lastStatus: 599 }, limit: 100, now };
  let [before, pages]: [string | undefined, number] = [undefined, 0];
  for (let next: string | null = ""; next !== null; pages += 1) {
    const page = await listDeliveries(client, { ...query, before });
    expect(page.rows).toEqual([]);
    ({ next } = page);
    before = next ?? undefined;
  }
  // Of 10,006 rows, 5,000 each.
  expect(pages).toBe(3);
});

test("a list of one type's events does not scan other events", async () => {
  const read = await blocks(async (db) => {
    const query = { filter: { type: RARE_TYPE }, before: undefined, limit: 100 };
    expect((await listEvents(db, many.tenantId, query)).rows).toHaveLength(rare.length);
  });
  expect(read).toBeLessThanOrEqual(100);
});

test("an endpoint's hourly counts do not scan other endpoints' deliveries", async () => {
  const hour = new Date(Math.floor((now.getTime() - 1000) / HOUR_MS) * HOUR_MS);
  const read = await blocks(async (db) => {
    const of = { tenantId: many.tenantId, endpointId: RARE_ENDPOINT };
    const [counted] = await readDeliveryHours(db, of, [hour]);
    expect(counted).toMatchObject({ total: rare.length, complete: true });
  });
  expect(read).toBeLessThanOrEqual(100);
});

interface Explained {
  readonly "QUERY PLAN": readonly [{ readonly Plan: Record<string, number> }];
}

/** Returns the number of blocks that the statements of `work` read, from memory or disk. */
async function blocks(work: (db: Queryable) => Promise<unknown>): Promise<number> {
  let count = 0;
  const explaining = {
    query: async (statement: string | { text: string; values: unknown[] }, values: unknown[] = []) => {
      const { text, values: own } =
        typeof statement === "string" ? { text: statement, values } : { ...statement };
      const given = own ?? values;
      const { rows } = await client.query<Explained>(
        `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`,
        given,
      );
      for (const { "QUERY PLAN": plan } of rows) {
        count += (plan[0].Plan["Shared Hit Blocks"] ?? 0) + (plan[0].Plan["Shared Read Blocks"] ?? 0);
      }
      return await client.query(text, given);
    },
  };
  await work(explaining as unknown as Queryable);
  return count;
}

test("the worker's generic plan knows how many dead letters a sweep expires", async () => {
  await client.query("BEGIN");
  try {
    await client.query("SET LOCAL plan_cache_mode = force_generic_plan");
    await client.query(
      "UPDATE deliveries SET expires_at = now() - interval '1 hour' WHERE state = 'DEAD_LETTERED'",
    );
    await client.query("ANALYZE deliveries");
    const explained: string[] = [];
    const prepared = {
      query: async ({ text, values: [at] }: { text: string; values: [Date] }) => {
        await client.query(`PREPARE expiry (timestamptz) AS ${text}`);
        const { rows } = await client.query<{ "QUERY PLAN": string }>(
          `EXPLAIN EXECUTE expiry ('${at.toISOString()}')`,
        );
        explained.push(...rows.map((row) => row["QUERY PLAN"]));
        return { rows: [], rowCount: 0 };
      },
    };
    await expireOverdue(prepared as unknown as Queryable, now);
    await client.query("DEALLOCATE expiry");
    const plan = explained.join("\n");
    // With 500,000 overdue rows and an unknown limit, it joined them with every older delivery.
    expect(Number(/Limit .*?rows=(\d+)/.exec(plan)?.[1]), plan).toBe(EXPIRED_AT_ONCE);
  } finally {
    await client.query("ROLLBACK");
  }
});
