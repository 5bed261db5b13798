/** Deliveries that an earlier release had accepted are delivered by today's worker, on the upgraded database. */
import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { migrateDatabase } from "#database/migrate.ts";
import { secretAad, secretFingerprint } from "#crypto/endpoint-secret.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { eventually } from "../support/eventually.ts";
import { testKeyring } from "../support/keyring.ts";
import { allowMinutes } from "../support/limits.ts";
import { type Receiver, startReceiver, verifyReceived } from "../support/receiver-server.ts";
import type { TestDatabase } from "../support/test-database.ts";
import { makeWorld, TEST_CALLER, type World } from "../support/world.ts";
import { createReleaseDatabase, KEPT, keysOf, RELEASES } from "./releases.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

allowMinutes(3);

const DAY_MS = 86_400_000;

/** Loads schema and rows of a release and upgrades them days later. */
async function upgraded(release: string): Promise<TestDatabase> {
  const database = await createReleaseDatabase(release);
  // Partitions for today's deliveries and the days in between.
  for (const nowMs of [Date.now() - 3 * DAY_MS, Date.now()]) {
    await migrateDatabase({
      timers: machineTimers,
      adminUrl: database.adminUrl,
      serviceUrl: database.url,
      nowMs,
    });
  }
  return database;
}

/** Decrypts the release's secrets with its own keys, and points endpoints to existing receivers. */
async function reopen({ sql, config }: World, receiver: Receiver): Promise<readonly string[]> {
  const keyring = testKeyring(config.kek ?? Buffer.alloc(0));
  await sql.query("UPDATE endpoints SET url = $1 || '/' || id", [receiver.url]);
  const { rows } = await sql.query<{
    id: string;
    tenant: string;
    key: string;
    version: number;
    secret: string;
  }>(
    `SELECT endpoint_id AS id, tenant_id AS tenant, data_key AS key, version, secret
      FROM endpoint_secrets s JOIN tenants t ON t.id = s.tenant_id`,
  );
  return await Promise.all(
    rows.map(async ({ id, tenant, key, version, secret }) => {
      const opened = await keyring.openForTenant(key, tenant, secretAad(tenant, id, version), secret);
      return opened.toString("utf8");
    }),
  );
}

/** Seals the secrets with new keys, because the release's keys were not kept, and points endpoints to existing receivers. */
async function rekey({ sql, config }: World, receiver: Receiver): Promise<readonly string[]> {
  const keyring = testKeyring(config.kek ?? Buffer.alloc(0));
  const secrets: string[] = [];
  const { rows: tenants } = await sql.query<{ id: string }>("SELECT id FROM tenants WHERE NOT platform");
  for (const { id: tenant } of tenants) {
    const dataKey = await keyring.newTenantDataKey(tenant);
    await sql.query("UPDATE tenants SET data_key = $2 WHERE id = $1", [tenant, dataKey]);
    const { rows: endpoints } = await sql.query<{ id: string; version: number }>(
      "SELECT endpoint_id AS id, version FROM endpoint_secrets WHERE tenant_id = $1",
      [tenant],
    );
    for (const { id, version } of endpoints) {
      const secret = generateSecret(randomBytes);
      const sealed = await keyring.sealForTenant(dataKey, tenant, secretAad(tenant, id, version), secret);
      await sql.query(
        "UPDATE endpoint_secrets SET secret = $3, fingerprint = $4 WHERE endpoint_id = $1 AND version = $2",
        [id, version, sealed, secretFingerprint(secret)],
      );
      await sql.query("UPDATE endpoints SET url = $2 WHERE id = $1", [id, `${receiver.url}/${id}`]);
      secrets.push(secret);
    }
  }
  return secrets;
}

describe.concurrent.each(RELEASES)("deliveries of %s", (release) => {
  test("are sent by today's worker, signed and unchanged, with the release's keys; dead letters wait and can be replayed", async () => {
    const environment = await keysOf(release);
    const world = await makeWorld({
      database: await upgraded(release),
      environment: { ...KEPT, ...environment },
    });
    const receiver = await startReceiver();
    try {
      const secrets = await (environment === undefined ? rekey : reopen)(world, receiver);
      const states = async (): Promise<Record<string, number>> => {
        const { rows } = await world.sql.query<{ state: string; n: number }>(
          "SELECT state, count(*)::int AS n FROM deliveries GROUP BY 1",
        );
        return Object.fromEntries(rows.map(({ state, n }) => [state, n]));
      };
      const { rows: waiting } = await world.sql.query<{ id: string; tenant: string }>(
        "SELECT event_id AS id, tenant_id AS tenant FROM deliveries WHERE state = 'QUEUED' ORDER BY 1",
      );
      const before = await states();
      expect(waiting).toHaveLength(before["QUEUED"] ?? 0);
      expect(waiting.length).toBeGreaterThan(0);

      await world.startWorker();
      await eventually(
        async () => (await states())["QUEUED"] === undefined,
        "waiting deliveries to be sent",
        60_000,
      );
      await eventually(async () => {
        const now = await states();
        return now["DELIVERED"] === (before["DELIVERED"] ?? 0) + waiting.length;
      }, "waiting deliveries to arrive");
      const events = receiver.requests.map((request) => verifyReceived(request, secrets).payload);
      for (const { id, tenant } of waiting) {
        const { data } = await world.events.find(tenant, id);
        expect(events).toContainEqual(
          expect.objectContaining({ id, data: JSON.parse(String(data)) as unknown }),
        );
      }
      const { rows: sealed } = await world.sql.query<{ id: string }>(
        "SELECT endpoint_id AS id FROM endpoint_authentications",
      );
      for (const { id } of environment === undefined ? [] : sealed) {
        const shown = receiver.requests.filter(({ path }) => path.endsWith(id));
        expect(shown.map(({ headers }) => headers["authorization"])).toContain("Bearer sealed");
      }
      expect((await states())["DEAD_LETTERED"]).toBe(before["DEAD_LETTERED"]);

      const { rows: dead } = await world.sql.query<{ id: string; tenant: string }>(
        "SELECT id, tenant_id AS tenant FROM deliveries WHERE state = 'DEAD_LETTERED'",
      );
      for (const { id, tenant } of dead) {
        await world.deliveries.replay(tenant, id, TEST_CALLER);
      }
      const all = Object.values(before).reduce((sum, n) => sum + n, 0);
      await eventually(
        async () => (await states())["DELIVERED"] === all,
        "the dead letters to arrive",
        60_000,
      );
    } finally {
      await world.close();
      await receiver.close();
    }
  });
});
