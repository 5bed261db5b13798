/** Claims of lists of one endpoint or tenant each: tenants are served in turns. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import {
  claimForEndpoints,
  claimLetters,
  claimRetries,
  hasWaitingRetries,
} from "#database/repositories/webhooks/list-claims.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";
import { LetterReconciler } from "#webhooks/engine/letter-reconciler.ts";
import { useWorld } from "../support/world.ts";

// No worker runs: the tests claim.
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

async function publishTwice(tenant: string): Promise<void> {
  await made.current.publish(tenant);
  await made.current.publish(tenant);
}

const now = new Date();
const lists = {
  carriers: ["bat_list_1", "bat_list_2", "bat_list_3", "bat_list_4"],
  listMax: 10,
  worker: "key_me",
  now,
};
const retries = { ...lists, spreadSeconds: 2, afterTenant: "", timedOut: false };

/** Publishes to many endpoints of one tenant, then to one of another. Returns both tenants and all endpoints. */
async function crowd(): Promise<{ many: string; one: string; endpointIds: string[] }> {
  const world = made.current;
  const [many, one] = [await world.createTenant(), await world.createTenant()];
  const endpointIds: string[] = [];
  for (let index = 0; index < 6; index += 1) {
    endpointIds.push((await world.createEndpoint(many, "http://127.0.0.1:1")).id);
  }
  await publishTwice(many);
  endpointIds.push((await world.createEndpoint(one, "http://127.0.0.1:1")).id);
  await publishTwice(one);
  return { many, one, endpointIds };
}

function membersByTenant(
  claimed: readonly { carrier: string; tenant_id: string; endpoint_id: string }[],
): Record<string, number> {
  const count: Record<string, number> = {};
  const endpointOf = new Map<string, string>();
  for (const { carrier, tenant_id: tenantId, endpoint_id: endpointId } of claimed) {
    expect(endpointOf.get(carrier) ?? endpointId).toBe(endpointId);
    endpointOf.set(carrier, endpointId);
    count[tenantId] = (count[tenantId] ?? 0) + 1;
  }
  return count;
}

test("of slow endpoints are claimed in turns of their tenants", async () => {
  const { many, one, endpointIds } = await crowd();
  const claim = { ...lists, endpointIds, sharedBelow: 2 };
  const first = await claimForEndpoints(pool, claim);
  // Three lists of the one tenant, and the only list of the other.
  expect(membersByTenant(first)).toEqual({ [many]: 6, [one]: 2 });
  const rest = await claimForEndpoints(pool, claim);
  expect(membersByTenant(rest)).toEqual({ [many]: 6 });
  expect(await claimForEndpoints(pool, claim)).toEqual([]);
});

test("of slow endpoints for which few deliveries wait share lists of their tenant, the oldest first", async () => {
  const { many, one, endpointIds } = await crowd();
  const crowded = endpointIds[0] ?? "";
  await made.current.sql.query(
    "UPDATE deliveries SET endpoint_id = $1 WHERE tenant_id = $2 AND endpoint_id = $3",
    [crowded, many, endpointIds[1]],
  );
  const claimed = await claimForEndpoints(pool, { ...lists, listMax: 5, endpointIds, sharedBelow: 4 });
  const shapes = Object.values(Object.groupBy(claimed, ({ carrier }) => carrier)).map((members = []) => ({
    tenants: new Set(members.map((member) => member.tenant_id)),
    endpoints: new Set(members.map((member) => member.endpoint_id)),
    ids: members.map((member) => member.delivery_id).toSorted(),
  }));
  const ofMany = (count: number) => ({ tenants: new Set([many]), endpoints: { size: count } });
  expect(shapes).toHaveLength(4);
  expect(shapes).toContainEqual(expect.objectContaining({ tenants: new Set([one]) }));
  expect(shapes.filter(({ endpoints }) => endpoints.has(crowded))).toMatchObject([ofMany(1)]);
  const shared = shapes
    .filter(({ tenants, endpoints }) => tenants.has(many) && !endpoints.has(crowded))
    .sort((a, b) => b.ids.length - a.ids.length);
  expect(shared.map(({ ids }) => ids.length)).toEqual([5, 3]);
  expect(shared.flatMap(({ ids }) => ids)).toEqual(shared.flatMap(({ ids }) => ids).toSorted());
});

test("of retries are claimed in turns of their tenants, whoever waits longer", async () => {
  const { many, one } = await crowd();
  await made.current.sql.query(
    `UPDATE deliveries SET state = 'RETRYING', attempt_count = 1, cycle_started_at = $2,
      next_attempt_at = now() - CASE tenant_id WHEN $1 THEN interval '1 hour' ELSE interval '0' END
    WHERE tenant_id IN ($1, $3)`,
    [many, now, one],
  );
  const claim = async (): Promise<Awaited<ReturnType<typeof claimRetries>>> =>
    await claimRetries(pool, retries);
  const { claimed, nextTenant } = await claim();
  expect(membersByTenant(claimed)).toEqual({ [many]: 6, [one]: 2 });
  expect(nextTenant).toBe("");
  expect(membersByTenant((await claim()).claimed)).toEqual({ [many]: 6 });
  expect((await claim()).claimed).toEqual([]);
});

test("of retries that timed out are claimed apart from the others", async () => {
  const { many, one } = await crowd();
  await made.current.sql.query(
    `UPDATE deliveries SET state = 'RETRYING', attempt_count = 1, cycle_started_at = $2, next_attempt_at = $2,
      last_error = CASE tenant_id WHEN $1 THEN 'timeout' ELSE 'status' END
    WHERE tenant_id IN ($1, $3)`,
    [many, now, one],
  );
  const claimed = async (timedOut: boolean): Promise<Record<string, number>> => {
    return membersByTenant((await claimRetries(pool, { ...retries, timedOut })).claimed);
  };
  expect(await hasWaitingRetries(pool, true)).toBe(true);
  expect(await claimed(false)).toEqual({ [one]: 2 });
  expect(await hasWaitingRetries(pool, false)).toBe(false);
  expect(await claimed(true)).toEqual({ [many]: 8 });
});

test("one alone is carried under its own id, unless a list that is about to start has that name", async () => {
  const world = made.current;
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, "http://127.0.0.1:1");
  const id = (await world.publish(tenant)).deliveries[0]?.id ?? "";
  const carrierOf: Readonly<Record<string, () => Promise<string | undefined>>> = {
    RETRYING: async () => {
      const { claimed } = await claimRetries(pool, retries);
      return claimed[0]?.carrier;
    },
    DEAD_LETTERED: async () => {
      const claim = { ...lists, recentEndpoints: [], diedBefore: now, afterEndpoint: "" };
      return (await claimLetters(pool, claim)).claimed[0]?.carrier;
    },
  };
  for (const [state, claim] of Object.entries(carrierOf)) {
    const wait = async (): Promise<unknown> =>
      await world.sql.query(
        `UPDATE deliveries SET state = $2, carrier = NULL, attempt_count = 1, cycle_started_at = now(), next_attempt_at = now(),
          dead_lettered_at = now(), expires_at = now() + interval '1 day' WHERE id = $1`,
        [id, state],
      );
    await wait();
    await world.sql.query(
      `INSERT INTO unstarted_lists (carrier, worker, first_day, last_day, first_id, last_id, opened_at)
      VALUES ($1, 'key_me', current_date, current_date, $1, $1, now())`,
      [id],
    );
    expect(await claim(), state).toBe("bat_list_1");
    await wait();
    await world.sql.query("DELETE FROM unstarted_lists");
    expect(await claim(), state).toBe(id);
  }
});

test("a dead letter that its worker claimed and did not start is missed once that worker is gone", async () => {
  const world = made.current;
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, "http://127.0.0.1:1");
  const id = (await world.publish(tenant)).deliveries[0]?.id ?? "";
  await world.sql.query(
    `UPDATE deliveries SET state = 'DEAD_LETTERED', carrier = id, claimed_at = now(), claimed_by = 'key_starter',
      dead_lettered_at = now() - interval '1 hour', expires_at = now() + interval '1 day' WHERE id = $1`,
    [id],
  );
  const log = createLogger({ level: "silent" });
  const missed = async (): Promise<string[]> => {
    const reconciler = new LetterReconciler({ pool, client: world.temporal, clock: systemClock, log });
    return (await reconciler.differences()).map(({ carrier }) => carrier);
  };
  await world.sql.query("INSERT INTO workers (id, seen_at) VALUES ('key_starter', now())");
  expect(await missed()).not.toContain(id);
  await world.sql.query("DELETE FROM workers");
  expect(await missed()).toContain(id);
});
