/**
 * Lists are complete, contain each row once and match their filters, page by page, across days and
 * partitions.
 */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { newId } from "#domain/ids.ts";
import { useTestApi } from "#test/support/api.ts";
import {
  createEndpoint,
  createTenant,
  type Json,
  listAll,
  publish,
  renew,
  rows,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useTestApi();
const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;
const TYPES = ["a.b", "c.d", "e.f"] as const;
const PER_DAY = 100;
/** Days from one round of events to the next; the last round lies beyond the existing partitions. */
const STEPS = [1, 1, 1, 9];
const EVENTS = "/v1/events";
const DELIVERIES = "/v1/webhooks/deliveries";
const DLQ = "/v1/webhooks/dlq";
const ENDPOINTS = "/v1/webhooks/endpoints";

interface Row {
  readonly id: string;
  readonly event_id: string;
  readonly event_type: string;
  readonly endpoint_id: string;
  readonly state: string;
  readonly created_at: Date;
  readonly expires_at: Date | null;
}

let tenant: Tenant;
/** The tenant's rows, newest first, read directly from the database. */
let events: readonly { readonly id: string; readonly type: string; readonly created_at: Date }[];
let deliveries: readonly Row[];

async function publishRound(): Promise<void> {
  const batch = Array.from({ length: PER_DAY }, (_, n) => ({ type: TYPES[n % TYPES.length], data: { n } }));
  expect(await tenant.post(EVENTS, { events: batch })).toMatchObject({ status: 202 });
}

/** Returns the tenant's rows of a table, newest first. */
async function read<R extends object>(table: string): Promise<R[]> {
  return await sql<R>(api, `SELECT * FROM ${table} WHERE tenant_id = $1 ORDER BY id DESC`, [tenant.tenantId]);
}

beforeAll(async () => {
  tenant = await createTenant(api);
  await createEndpoint(api, tenant, { events: ["a.b"] });
  await createEndpoint(api, tenant, { events: ["*"], state: "DISABLED" });
  await createEndpoint(api, tenant, { events: ["c.d", "x.y"] });
  // Another tenant's rows lie between them.
  const other = await createTenant(api);
  await createEndpoint(api, other);
  await publish(other);
  await publishRound();
  for (const days of STEPS) {
    api.clock.advance(days * DAY_MS);
    tenant = await renew(api, tenant);
    await publishRound();
  }
  const states = ["DELIVERED", "RETRYING", "CANCELLED", "EXPIRED"];
  for (const [index, state] of states.entries()) {
    await sql(
      api,
      `UPDATE deliveries SET state = $2 WHERE tenant_id = $1 AND state = 'QUEUED' AND id IN (
        SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM deliveries WHERE tenant_id = $1) r WHERE n % 9 = $3)`,
      [tenant.tenantId, state, index],
    );
  }
  events = await read("events");
  deliveries = await read("deliveries");
});

const ids = (list: readonly Json[] | readonly { readonly id: string }[]): readonly unknown[] =>
  list.map((row) => row.id);
/** Returns the state by the clock: a dead letter is EXPIRED after a week, even if its row is not. */
const stateOf = (row: Row): string =>
  row.state === "DEAD_LETTERED" && (row.expires_at?.getTime() ?? 0) <= api.clock.now()
    ? "EXPIRED"
    : row.state;

test("the test data fill several pages", () => {
  expect(events).toHaveLength(PER_DAY * (STEPS.length + 1));
  const dead = deliveries.filter((row) => row.state === "DEAD_LETTERED");
  expect(dead.length).toBeGreaterThanOrEqual(250);
  expect(dead.some((row) => stateOf(row) === "EXPIRED")).toBe(true);
  expect(new Set(deliveries.map(stateOf)).size).toBe(6);
});

describe("a whole list", () => {
  test.each([3, 13, 50, 99, 100])("of events comes in pages of %i", async (limit) => {
    expect(ids(await listAll(tenant, EVENTS, limit))).toEqual(ids(events));
  });

  test.each([7, 50, 100])("of deliveries comes in pages of %i", async (limit) => {
    const found = await listAll(tenant, DELIVERIES, limit);
    expect(found.map(({ id, state }) => [id, state])).toEqual(
      deliveries.map((row) => [row.id, stateOf(row)]),
    );
  });

  test.each([9, 100])("of dead letters comes in pages of %i", async (limit) => {
    const dead = deliveries.filter((row) => stateOf(row) === "DEAD_LETTERED");
    expect(ids(await listAll(tenant, DLQ, limit))).toEqual(ids(dead));
  });

  test.each([1, 50, 100])("of 250 endpoints comes in pages of %i", async (limit) => {
    const crowded = await createTenant(api);
    const made = Array.from({ length: 250 }, (_, n) => newId("endpoint", api.clock.now() + n, randomBytes));
    await sql(
      api,
      `INSERT INTO endpoints (id, tenant_id, url, event_types, state, verification_state, verification_requested_at,
        created_at, updated_at) SELECT id, $1, 'https://example.com', '{a.b}', 'ACTIVE', 'VERIFIED', now(), now(), now()
        FROM unnest($2::text[]) AS id`,
      [crowded.tenantId, made],
    );
    expect(ids(await listAll(crowded, ENDPOINTS, limit))).toEqual(made.toReversed());
  });

  test("has 50 rows a page by default", async () => {
    for (const list of [EVENTS, DELIVERIES, DLQ]) {
      expect(rows(await tenant.get(list))).toHaveLength(50);
    }
  });

  test("that ends with a full page has no next cursor", async () => {
    const two = events.find(({ type }) => type === "a.b");
    const answer = await tenant.get(`${DELIVERIES}?event_id=${two?.id}&limit=2`);
    expect(rows(answer)).toHaveLength(2);
    expect(answer.body["next_cursor"]).toBeNull();
  });
});

describe("filters", () => {
  /** Instants at, just before and just after the creation of an event. */
  const instant = fc.tuple(fc.nat(), fc.constantFrom(-DAY_MS, -1, 0, 1, DAY_MS)).map(([index, shift]) => {
    const { created_at: at } = events[index % events.length] ?? { created_at: new Date(0) };
    return new Date(at.getTime() + shift).toISOString();
  });
  const state = fc.constantFrom("QUEUED", "RETRYING", "DELIVERED", "DEAD_LETTERED", "EXPIRED", "CANCELLED");
  /** Leaves most filters out, since all of them together would find nothing. */
  const sometimes = <T>(arbitrary: fc.Arbitrary<T>) =>
    fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });
  /** Excludes time ranges that end before they begin, which the API rejects. */
  const forward = ({
    from,
    to,
  }: {
    readonly from?: string | undefined;
    readonly to?: string | undefined;
  }): boolean => from === undefined || to === undefined || from <= to;
  const filter = fc
    .record({
      endpoint_id: sometimes(fc.nat().map((n) => deliveries[n % deliveries.length]?.endpoint_id)),
      event_id: sometimes(fc.nat().map((n) => events[n % events.length]?.id)),
      event_type: sometimes(fc.constantFrom(...TYPES, "x.y")),
      state: sometimes(state),
      from: sometimes(instant),
      to: sometimes(instant),
    })
    .filter(forward);
  type Filter = Partial<
    Record<"endpoint_id" | "event_id" | "event_type" | "state" | "from" | "to", string | undefined>
  >;

  const within = (at: Date, { from, to }: Filter): boolean =>
    (from === undefined || at >= new Date(from)) && (to === undefined || at < new Date(to));

  function matching(given: Filter): readonly Row[] {
    return deliveries.filter(
      (row) =>
        (given.endpoint_id ?? row.endpoint_id) === row.endpoint_id &&
        (given.event_id ?? row.event_id) === row.event_id &&
        (given.event_type ?? row.event_type) === row.event_type &&
        (given.state ?? stateOf(row)) === stateOf(row) &&
        within(row.created_at, given),
    );
  }

  function address(list: string, given: Filter): string {
    const set = Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined);
    return `${list}?${new URLSearchParams(set).toString()}`;
  }

  test("of deliveries and dead letters return exactly the matching rows, alone and combined", async () => {
    let found = 0;
    await fc.assert(
      fc.asyncProperty(filter, fc.integer({ min: 20, max: 100 }), async (given, limit) => {
        const expected = matching(given);
        found += expected.length > 0 ? 1 : 0;
        expect(ids(await listAll(tenant, address(DELIVERIES, given), limit))).toEqual(ids(expected));
        const dead = expected.filter((row) => stateOf(row) === "DEAD_LETTERED");
        expect(ids(await listAll(tenant, address(DLQ, given), limit))).toEqual(ids(dead));
      }),
      { numRuns: 30 },
    );
    expect(found).toBeGreaterThan(10);
  });

  test("of events return exactly the matching rows", async () => {
    const ofEvents = fc
      .record({
        event_type: sometimes(fc.constantFrom(...TYPES, "x.y")),
        from: sometimes(instant),
        to: sometimes(instant),
      })
      .filter(forward);
    await fc.assert(
      fc.asyncProperty(ofEvents, fc.integer({ min: 20, max: 100 }), async (given, limit) => {
        const expected = events.filter(
          ({ type, created_at: at }) => (given.event_type ?? type) === type && within(at, given),
        );
        expect(ids(await listAll(tenant, address(EVENTS, given), limit))).toEqual(ids(expected));
      }),
      { numRuns: 30 },
    );
  });

  test("accept times with any offset", async () => {
    const { created_at: at } = events[PER_DAY] ?? { created_at: new Date(0) };
    const shifted = `${new Date(at.getTime() + 90 * 60_000).toISOString().slice(0, -1)}+01:30`;
    const expected = events.filter((event) => event.created_at >= at);
    expect(ids(await listAll(tenant, address(EVENTS, { from: shifted }), 100))).toEqual(ids(expected));
  });
});

describe("a cursor", () => {
  const cursorOf = async (address: string): Promise<string> =>
    encodeURIComponent(String((await tenant.get(address)).body["next_cursor"]));

  test("allows a different limit on the next page", async () => {
    const cursor = await cursorOf(`${EVENTS}?limit=3`);
    const page = rows(await tenant.get(`${EVENTS}?limit=5&cursor=${cursor}`));
    expect(ids(page)).toEqual(ids(events).slice(3, 8));
  });

  test("is valid only for its own list and filters", async () => {
    const cursor = await cursorOf(`${DELIVERIES}?limit=1&event_type=a.b`);
    expect(await tenant.get(`${DELIVERIES}?limit=1&event_type=a.b&cursor=${cursor}`)).toMatchObject({
      status: 200,
    });
    for (const other of [
      `${DELIVERIES}?event_type=c.d`,
      `${DELIVERIES}?limit=1`,
      `${DLQ}?event_type=a.b`,
      `${EVENTS}?event_type=a.b`,
    ]) {
      expect(await tenant.get(`${other}&cursor=${cursor}`)).toMatchObject({
        status: 400,
        body: { code: "INVALID_REQUEST" },
      });
    }
  });

  test("keeps its position while rows are added", async () => {
    const busy = await createTenant(api);
    for (let count = 0; count < 6; count += 1) {
      await publish(busy);
    }
    const before = ids(await listAll(busy, EVENTS, 100));
    const seen: unknown[] = [];
    let cursor = "";
    for (let page = 0; page < 3; page += 1) {
      const answer = await busy.get(`${EVENTS}?limit=2${cursor}`);
      seen.push(...ids(rows(answer)));
      cursor = `&cursor=${encodeURIComponent(String(answer.body["next_cursor"]))}`;
      api.clock.advance(1);
      await publish(busy);
    }
    expect(seen).toEqual(before);
  });
});

test("a dead letter expires a week after its creation", () => {
  const dead = deliveries.find((row) => row.state === "DEAD_LETTERED");
  expect((dead?.expires_at?.getTime() ?? 0) - (dead?.created_at.getTime() ?? 0)).toBe(WEEK_MS);
});
