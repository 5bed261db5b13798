/**
 * The newest PostgreSQL as providers hand it over: nobody is a superuser. From version 16 on, CREATEROLE alone no longer
 * lets a login use the roles of others. `logical-backup.test.ts` does the same on the oldest version.
 */
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { expect, inject, test } from "vitest";
import { requireSafeAccess } from "#database/access.ts";
import { migrateDatabase } from "#database/migrate.ts";
import { createPool } from "#database/pool.ts";
import { createLogger } from "#observability/logger.ts";
import { startEmbeddedPostgres } from "#processes/embedded/postgres.ts";
import { freePort } from "#test/support/free-port.ts";
import { useStarted } from "#test/support/started.ts";
import { execute, SERVICE_LOGIN, THROWN_AWAY, withDatabase } from "#test/support/test-database.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const OWNER = { user: "owner", password: "owner" };
const EDGE = { user: "edge", password: "edge" };
const BACKUP = { user: "backup", password: "backup" };

const server = useStarted("the server", async () => {
  const home = await mkdtemp(join(inject("runDirectory"), "managed-"));
  await chmod(home, 0o755);
  const postgres = await startEmbeddedPostgres({
    home,
    port: await freePort(),
    settings: THROWN_AWAY,
    log: () => undefined,
  });
  await execute(
    postgres.url,
    `CREATE ROLE ${OWNER.user} LOGIN CREATEROLE NOSUPERUSER NOBYPASSRLS PASSWORD '${OWNER.password}'`,
  );
  await execute(postgres.url, `CREATE DATABASE managed OWNER ${OWNER.user}`);
  return {
    superuserUrl: postgres.url,
    url: (login: typeof OWNER) => withDatabase(postgres.url, "managed", login),
    close: async () => {
      await postgres.stop();
      await rm(home, { recursive: true });
    },
  };
});

async function ask<Row extends object>(login: typeof OWNER, text: string): Promise<Row[]> {
  const client = new Client({ connectionString: server.current.url(login) });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

test("an owner that may create roles migrates, again and again, and production accepts the logins it creates", async () => {
  const { url } = server.current;
  const migrate = async (): Promise<number> =>
    await migrateDatabase({
      timers: machineTimers,
      adminUrl: url(OWNER),
      serviceUrl: url(SERVICE_LOGIN),
      edgeUrl: url(EDGE),
      nowMs: Date.now(),
    });
  expect(await migrate()).toBeGreaterThan(0);
  expect(await migrate()).toBe(0);
  for (const [login, role] of [
    [SERVICE_LOGIN, "signet_api"],
    [EDGE, "signet_edge"],
  ] as const) {
    for (const sharesSessions of [false, true]) {
      const log = createLogger({ level: "silent" });
      const pool = createPool({ url: url(login), role, max: 1, log, sharesSessions });
      try {
        const databaseDirectUrl = sharesSessions ? url(login) : undefined;
        await requireSafeAccess(pool, { databaseUrl: url(login), databaseDirectUrl, development: false });
      } finally {
        await pool.end();
      }
    }
  }
});

test("it grants backups to a login of their own, which reads every row of every table and writes none", async () => {
  await ask(
    OWNER,
    `CREATE ROLE ${BACKUP.user} LOGIN NOINHERIT PASSWORD '${BACKUP.password}'; GRANT signet_backup TO ${BACKUP.user}; GRANT CONNECT ON DATABASE managed TO ${BACKUP.user}`,
  );
  await ask(
    SERVICE_LOGIN,
    `SET ROLE signet_operator; INSERT INTO tenants (id, name, region, data_key, created_at) VALUES ('ten_one', 'one', 'eu', '', now())`,
  );
  // The owner of the tables itself sees nothing.
  expect(await ask(OWNER, "SELECT id FROM tenants")).toEqual([]);
  const unread = await ask(
    OWNER,
    `SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND (
       relkind IN ('r', 'p') AND (NOT has_table_privilege('signet_backup', oid, 'SELECT')
         OR has_table_privilege('signet_backup', oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
         OR (relrowsecurity AND NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = pg_class.oid
           AND polcmd = 'r' AND polroles = ARRAY['signet_backup'::regrole::oid] AND pg_get_expr(polqual, polrelid) = 'true')))
       OR relkind = 'S' AND NOT has_sequence_privilege('signet_backup', oid, 'SELECT'))`,
  );
  expect(unread).toEqual([]);
  const client = new Client({ connectionString: server.current.url(BACKUP) });
  await client.connect();
  try {
    await client.query("SET ROLE signet_backup");
    expect((await client.query("SELECT id FROM tenants")).rows).toEqual([{ id: "ten_one" }]);
    // A partition that a worker creates later.
    await ask(SERVICE_LOGIN, "SET ROLE signet_worker; SELECT ensure_day_partitions(current_date + 30, 1)");
    const { rows } = await client.query<{ name: string }>(
      "SELECT 'events_' || to_char(current_date + 30, 'YYYYMMDD') AS name",
    );
    expect((await client.query(`SELECT FROM ${rows[0]?.name}`)).rowCount).toBe(0);
    await expect(client.query("DELETE FROM tenants")).rejects.toThrow(/permission denied/);
    await expect(client.query("SET ROLE signet_operator")).rejects.toThrow(/permission denied to set role/);
  } finally {
    await client.end();
  }
});

test("the owner of a second database on the server migrates it once the first owner has granted the roles", async () => {
  const second = { user: "second", password: "second" };
  const { superuserUrl } = server.current;
  await execute(superuserUrl, `CREATE ROLE ${second.user} LOGIN CREATEROLE PASSWORD '${second.password}'`);
  await execute(superuserUrl, `CREATE DATABASE another OWNER ${second.user}`);
  const migrate = async (): Promise<number> =>
    await migrateDatabase({
      timers: machineTimers,
      adminUrl: withDatabase(superuserUrl, "another", second),
      serviceUrl: withDatabase(superuserUrl, "another", { user: "second_service", password: "x" }),
      nowMs: Date.now(),
    });
  const refused = await migrate().then(
    () => "",
    (error: unknown) => String(error),
  );
  const [, owners, grant = ""] =
    /second may not grant the roles .*let their owner \((.*)\) run (GRANT .* WITH ADMIN OPTION)$/.exec(
      refused,
    ) ?? [];
  expect(owners, refused).toBe(OWNER.user);
  expect(grant).toMatch(/\bsignet_owner, .*\bsignet_worker TO second\b/);
  await ask(OWNER, grant);
  expect(await migrate()).toBeGreaterThan(0);
});
