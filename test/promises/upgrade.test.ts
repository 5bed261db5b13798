/** A database that an earlier release has left is migrated by today's code (record.ts keeps them). */
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { migrateDatabase } from "#database/migrate.ts";
import { readSchemaState, requireCurrentSchema } from "#database/migration-files.ts";
import { TEMPLATE_DATABASE, type TestDatabase, withDatabase } from "../support/test-database.ts";
import { createReleaseDatabase, RELEASES } from "../upgrade/releases.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const DAY_MS = 86_400_000;

/** Tables that are no partitions, with how many rows each has. */
async function countRows(client: Client): Promise<Record<string, number>> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
      AND NOT relispartition ORDER BY 1`,
  );
  const counts: Record<string, number> = {};
  for (const { name } of rows) {
    const { rows: found } = await client.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${name}`);
    counts[name] = found[0]?.n ?? 0;
  }
  return counts;
}

/** Everything in a schema, except for the partitions of days. */
const SCHEMA = {
  columns: `SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
    WHERE table_schema = 'public' ORDER BY 1, 2`,
  constraints: `SELECT conrelid::regclass::text AS table_name, conname, pg_get_constraintdef(oid) AS definition
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n' ORDER BY 1, 2`,
  indexes:
    "SELECT tablename AS table_name, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2",
  policies: `SELECT tablename AS table_name, policyname, roles::text, cmd, qual, with_check FROM pg_policies
    WHERE schemaname = 'public' ORDER BY 1, 2`,
  protection: `SELECT relname AS table_name, relrowsecurity, relforcerowsecurity, pg_get_userbyid(relowner) AS owner
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1`,
  grants: `SELECT table_name, column_name, grantee, privilege_type FROM information_schema.column_privileges
    WHERE table_schema = 'public' ORDER BY 1, 2, 3, 4`,
  triggers: `SELECT tgrelid::regclass::text AS table_name, tgname, pg_get_triggerdef(oid) AS definition FROM pg_trigger
    WHERE NOT tgisinternal ORDER BY 1, 2`,
  functions: `SELECT p.oid::regprocedure::text AS name, pg_get_functiondef(p.oid) AS definition, p.proacl::text AS acl
    FROM pg_proc p WHERE pronamespace = 'public'::regnamespace ORDER BY 1`,
} as const;

async function describeSchema(client: Client): Promise<Record<string, unknown[]>> {
  const described: Record<string, unknown[]> = {};
  for (const [part, query] of Object.entries(SCHEMA)) {
    const { rows } = await client.query<Record<string, unknown>>(query);
    described[part] = rows.filter((row) => !/_\d{8}$/.test(String(row["table_name"])));
  }
  return described;
}

async function connect(connectionString: string): Promise<Client> {
  const client = new Client({ connectionString });
  await client.connect();
  return client;
}

describe.each(RELEASES)("the database of %s", (release) => {
  let database: TestDatabase;
  let client: Client;

  beforeAll(async () => {
    database = await createReleaseDatabase(release);
    client = await connect(database.adminUrl);
  });

  afterAll(async () => {
    await client.end();
    await database.drop();
  });

  test("has rows in every table, keeps them all through the migration, and ends with the schema of a new one", async () => {
    const before = await countRows(client);
    expect(Object.keys(before)).toContain("deliveries");
    expect(Object.entries(before).filter(([, rows]) => rows === 0)).toEqual([]);
    const states = "SELECT state, count(*)::int AS n FROM deliveries GROUP BY 1 ORDER BY 1";
    const { rows: statesBefore } = await client.query(states);
    expect(statesBefore).toMatchObject([
      { state: "DEAD_LETTERED" },
      { state: "DELIVERED" },
      { state: "QUEUED" },
    ]);
    const { rows: times } = await client.query<{ newest: Date }>(
      "SELECT max(created_at) AS newest FROM events",
    );

    // The upgrade happens days later, when another week has partitions.
    const options = {
      adminUrl: database.adminUrl,
      serviceUrl: database.url,
      timers: machineTimers,
      nowMs: (times[0]?.newest.getTime() ?? 0) + 3 * DAY_MS,
    };
    const { pending } = await readSchemaState(client);
    const applied = await migrateDatabase(options);
    // What `signet doctor` says before an upgrade.
    expect(applied).toBe(pending.length);
    expect(await migrateDatabase(options)).toBe(0);
    await requireCurrentSchema(client);
    // Downgrade: a version starts on a schema with later migrations.
    await client.query("BEGIN");
    await client.query("INSERT INTO schema_migrations VALUES (9999, '9999-later.sql', 'x', now())");
    await requireCurrentSchema(client);
    await client.query("ROLLBACK");

    const { schema_migrations: migrations = 0, ...after } = await countRows(client);
    const { schema_migrations: migrationsBefore = 0, ...kept } = before;
    expect(migrations).toBe(migrationsBefore + applied);
    expect(after).toMatchObject(kept);
    expect((await client.query(states)).rows).toEqual(statesBefore);

    const fresh = await connect(withDatabase(inject("databaseUrl"), TEMPLATE_DATABASE));
    const wanted = await describeSchema(fresh);
    await fresh.end();
    const found = await describeSchema(client);
    for (const part of Object.keys(SCHEMA)) {
      expect(found[part], part).toEqual(wanted[part]);
      expect(found[part], part).not.toEqual([]);
    }
  });
});
