/** A tenant's version tells whether the matches that ingest remembers are current, and nobody waits for it (decision 42). */
import { randomBytes } from "node:crypto";
import type { PoolClient } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { insertEvents } from "#database/repositories/webhooks/events.ts";
import { matchEndpoints, type MatchedType } from "#database/repositories/webhooks/matches.ts";
import { newId } from "#domain/ids.ts";
import { seededRandom } from "#test/support/seeded-random.ts";
import { useWorld } from "#test/support/world.ts";

const world = useWorld();
const TYPES = ["first.type", "second.type"] as const;
const now = new Date();

async function match(tenantId: string): Promise<readonly MatchedType[]> {
  const found = await matchEndpoints(
    world.current.sql,
    TYPES.map((type) => ({ tenantId, type })),
  );
  return found.toSorted((a, b) => a.type.localeCompare(b.type));
}

async function versionOf(tenantId: string): Promise<string> {
  return (await match(tenantId))[0]?.version ?? "";
}

/** Returns a connection with an open transaction, which ends with the test. */
async function transaction(): Promise<PoolClient> {
  const client = await world.current.sql.connect();
  onTestFinished(async () => {
    await client.query("ROLLBACK");
    client.release();
  });
  await client.query("BEGIN");
  return client;
}

/** Changes that a match may depend on, and some that none does. `$1` is the tenant, `$2` an endpoint, `$3` a type. */
const CHANGES: readonly string[] = [
  "UPDATE endpoints SET state = CASE state WHEN 'ACTIVE' THEN 'DISABLED' ELSE 'ACTIVE' END WHERE tenant_id = $1 AND id = $2 AND $3 <> ''",
  "UPDATE endpoints SET state = CASE state WHEN 'PENDING' THEN 'ACTIVE' ELSE 'PENDING' END WHERE tenant_id = $1 AND id = $2 AND $3 <> ''",
  "UPDATE endpoints SET event_types = CASE event_types WHEN '{*}' THEN ARRAY[$3::text] ELSE '{*}' END WHERE tenant_id = $1 AND id = $2",
  `UPDATE endpoints SET filter = CASE WHEN filter IS NULL THEN '{"type": "' || $3 || '"}' END WHERE tenant_id = $1 AND id = $2`,
  `INSERT INTO endpoints (id, tenant_id, url, event_types, state, verification_state, verification_requested_at, created_at, updated_at)
    SELECT 'ep_' || substr(md5(random()::text), 1, 24), $1, 'https://receiver.example/', ARRAY[$3::text], 'ACTIVE', 'VERIFIED', now(), now(), now()
    WHERE $2 <> ''`,
  "DELETE FROM endpoints WHERE tenant_id = $1 AND $3 = ANY (event_types) AND id <> $2 AND url LIKE '%receiver.example/'",
  `INSERT INTO event_types (tenant_id, name, examples, created_at, updated_at) SELECT $1, $3, '[]', now(), now() WHERE $2 <> ''
    ON CONFLICT (tenant_id, name) DO UPDATE SET deprecated_at = CASE WHEN event_types.deprecated_at IS NULL THEN now() END`,
  "DELETE FROM event_types WHERE tenant_id = $1 AND $2 <> '' AND name = $3",
  "UPDATE endpoints SET updated_at = now() WHERE tenant_id = $1 AND id = $2 AND $3 <> ''",
];

test.each([1, 2, 3, 4, 5, 6])(
  "whatever transactions change at once, a version has one match for ever (seed %i)",
  async (seed) => {
    const random = seededRandom(seed);
    const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
    const tenantId = await world.current.createTenant();
    const seen = new Map<string, Omit<MatchedType, "version">[]>();
    // Each writer has rows of its own, so that none waits for a row of another one.
    const writers = await Promise.all(
      TYPES.map(async (type) => {
        const url = `https://${type}.example/`;
        const { id } = await world.current.createEndpoint(tenantId, url, [type]);
        return { type, endpointId: id, client: await transaction() };
      }),
    );
    for (let step = 0; step < 60; step += 1) {
      const { type, endpointId, client } = pick(writers);
      const given = [tenantId, endpointId, type];
      await client.query("SAVEPOINT before");
      await client.query(pick(CHANGES), given);
      if (random() < 0.3) {
        await client.query("ROLLBACK TO before");
        await client.query(pick(CHANGES), given);
      }
      if (random() < 0.5) {
        await client.query(random() < 0.8 ? "COMMIT" : "ROLLBACK");
        await client.query("BEGIN");
      }
      const matches = (await match(tenantId)).map(({ version, endpoints, ...rest }) => {
        const sorted = endpoints.toSorted((a, b) => a.endpoint_id.localeCompare(b.endpoint_id));
        return { version, match: { ...rest, endpoints: sorted } };
      });
      const [version] = new Set(matches.map((each) => each.version));
      const found = matches.map((each) => each.match);
      expect(seen.get(version ?? "") ?? found).toEqual(found);
      seen.set(version ?? "", found);
    }
    expect(seen.size).toBeGreaterThan(5);
  },
);

test("a change that no match depends on leaves the version as it is, and each other one makes a new one", async () => {
  const tenantId = await world.current.createTenant();
  const { id } = await world.current.createEndpoint(tenantId, "https://receiver.example/", [...TYPES]);
  const { sql } = world.current;
  const first = await versionOf(tenantId);
  await sql.query("UPDATE endpoints SET url = 'https://other.example/', updated_at = now() WHERE id = $1", [
    id,
  ]);
  expect(await versionOf(tenantId)).toBe(first);
  const versions = new Set([first]);
  for (const state of ["DISABLED", "ACTIVE", "DISABLED", "ACTIVE"]) {
    await sql.query("UPDATE endpoints SET state = $2 WHERE id = $1", [id, state]);
    versions.add(await versionOf(tenantId));
  }
  expect(versions.size).toBe(5);
});

test("changes of several tenants' endpoints wait neither for each other nor for publishes, which see them at the commit", async () => {
  const tenants = [await world.current.createTenant(), await world.current.createTenant()];
  const endpoints = await Promise.all(
    tenants.map(async (tenantId) => [
      await world.current.createEndpoint(tenantId, "https://receiver.example/", TYPES),
      await world.current.createEndpoint(tenantId, "https://receiver.example/", TYPES),
    ]),
  );
  const publish = async (): Promise<number[]> =>
    await Promise.all(
      tenants.map(async (tenantId) => {
        const rest = { data: "{}", sourceId: null, occurredAt: null, keys: [] };
        return (await world.current.ingest.accept({ tenantId, type: TYPES[0], ...rest })).deliveries;
      }),
    );
  expect(await publish()).toEqual([2, 2]);
  const [first, second] = [await transaction(), await transaction()];
  const remove = async (client: PoolClient, tenant: number, endpoint: number): Promise<void> => {
    await client.query("UPDATE endpoints SET state = 'PENDING' WHERE id = $1", [
      endpoints[tenant]?.[endpoint]?.id,
    ]);
  };
  // In the opposite order of the other transaction. One would end as a deadlock if they waited.
  await remove(first, 0, 0);
  await remove(second, 1, 1);
  await remove(first, 1, 0);
  await remove(second, 0, 1);
  expect(await publish()).toEqual([2, 2]);
  await first.query("COMMIT");
  expect(await publish()).toEqual([1, 1]);
  await second.query("COMMIT");
  expect(await publish()).toEqual([0, 0]);
});

test("after a change of one type, matches of others are compared once and stay", async () => {
  const tenantId = await world.current.createTenant();
  await world.current.createEndpoint(tenantId, "https://receiver.example/", [TYPES[0]]);
  const other = await world.current.createEndpoint(tenantId, "https://receiver.example/", [TYPES[1]]);
  const known = (await match(tenantId))[0] as MatchedType;
  await world.current.sql.query("UPDATE endpoints SET state = 'DISABLED' WHERE id = $1", [other.id]);
  const insert = async (expected: MatchedType, comparesMatches = true): ReturnType<typeof insertEvents> => {
    const id = newId("event", now.getTime(), randomBytes);
    const rest = { content: Buffer.alloc(1), sourceId: null, occurredAt: now, keys: [], deliveries: [] };
    const times = { now, keysAfter: now, signedKeysAfter: now, expiresAt: now };
    return await insertEvents(world.current.sql, [{ id, tenantId, type: TYPES[0], ...rest }], times, {
      expected: [expected],
      comparesMatches,
    });
  };
  expect(await insert(known, false)).toMatchObject({ inserted: new Set(), outdated: { size: 1 } });
  const { inserted, versions } = await insert(known);
  expect(inserted.size).toBe(1);
  expect(versions).toEqual(new Map([[tenantId, await versionOf(tenantId)]]));
  const again = await insert({ ...known, version: versions.get(tenantId) ?? "" });
  expect(again.inserted.size).toBe(1);
  expect(again.versions.size).toBe(0);
  const cheap = await insert({ ...known, version: await versionOf(tenantId) }, false);
  expect(cheap.inserted.size).toBe(1);
});
