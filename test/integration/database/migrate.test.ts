/** `signet migrate` in a database that others use, that has settings of its own, or in which an earlier run was interrupted. */
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { migrateDatabase } from "#database/migrate.ts";
import { readMigrations, requireCurrentSchema } from "#database/migration-files.ts";
import { eventually } from "#test/support/eventually.ts";
import { createTestDatabase } from "#test/support/services.ts";
import { execute, type TestDatabase } from "#test/support/test-database.ts";
import { createReleaseDatabase } from "#test/upgrade/releases.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

describe("a database of 0.2.0", () => {
  let database: TestDatabase;
  let other: Client;

  beforeAll(async () => {
    database = await createReleaseDatabase("0.2.0");
    other = new Client({ connectionString: database.adminUrl });
    await other.connect();
  });

  afterAll(async () => {
    await other.end();
    await database.drop();
  });

  test("is migrated whatever it sets for sessions, after others have ended, and an interrupted index is built again", async () => {
    await other.query(`ALTER DATABASE ${database.name} SET search_path = pg_catalog;
      ALTER DATABASE ${database.name} SET statement_timeout = '1ms';
      ALTER DATABASE ${database.name} SET lock_timeout = '1h';
      ALTER DATABASE ${database.name} SET standard_conforming_strings = off;
      ALTER DATABASE ${database.name} SET TimeZone = 'Pacific/Kiritimati';
      ALTER DATABASE ${database.name} SET DateStyle = 'SQL, DMY';
      ALTER DATABASE ${database.name} SET IntervalStyle = 'sql_standard'`);
    const { rows: filled } = await other.query<{ name: string }>(
      "SELECT tableoid::regclass::text AS name FROM public.deliveries LIMIT 1",
    );
    const partition = filled[0]?.name.replace("public.", "") ?? "";
    const index = partition.replace("deliveries", "deliveries_of_endpoint");
    await other.query(`CREATE INDEX ${index} ON public.${partition} (tenant_id)`);
    await other.query(
      `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'public.${index}'::regclass`,
    );

    await other.query("BEGIN; LOCK TABLE public.endpoint_grades IN ACCESS SHARE MODE");
    let pauses = 0;
    await migrateDatabase({
      adminUrl: database.adminUrl,
      nowMs: Date.now(),
      timers: {
        sleep: async () => {
          pauses += 1;
          await other.query("COMMIT");
        },
      },
    });
    expect(pauses).toBe(1);
    await other.query("SET search_path = public");
    await requireCurrentSchema(other);
    const { rows } = await other.query(
      `SELECT i.indisvalid AS valid, inhparent::regclass::text AS parent, pg_get_indexdef(i.indexrelid) AS definition
        FROM pg_index i JOIN pg_inherits ON inhrelid = i.indexrelid WHERE i.indexrelid = $1::regclass`,
      [index],
    );
    expect(rows).toEqual([
      {
        valid: true,
        parent: "deliveries_of_endpoint",
        definition: expect.stringContaining(
          "(tenant_id, endpoint_id, day, id) WHERE (state <> 'QUEUED'::text)",
        ),
      },
    ]);
  });
});

test("of two migrations at once, the second waits for the first without holding up its indexes", async () => {
  const database = await createReleaseDatabase("0.3.0");
  try {
    const options = { adminUrl: database.adminUrl, timers: machineTimers, nowMs: Date.now() };
    const applied = await Promise.all([migrateDatabase(options), migrateDatabase(options)]);
    expect(applied.toSorted((a, b) => a - b)).toEqual([0, expect.any(Number)]);
    expect(Math.max(...applied)).toBeGreaterThan(0);
  } finally {
    await database.drop();
  }
});

/** Makes the counts one table again, as it was before migration 0076. */
async function undivide(adminUrl: string): Promise<void> {
  const { sql } = (await readMigrations()).find(({ version }) => version === 46) ?? { sql: "" };
  const [table = ""] = /^CREATE TABLE delivery_counts [^;]*;\nCREATE INDEX[^;]*;/m.exec(sql) ?? [];
  await execute(
    adminUrl,
    `SET ROLE signet_owner; DROP TABLE delivery_counts; ${table}
    DROP FUNCTION count_partitions, ensure_count_days, drop_counts;
    DELETE FROM schema_migrations WHERE version IN (76, 77, 78)`,
  );
}

test("stored counts become a partition, and are read once, under a lock that stops nobody", async () => {
  const database = await createTestDatabase();
  const client = new Client({ connectionString: database.adminUrl });
  await client.connect();
  try {
    await undivide(database.adminUrl);
    const stored = 5_000;
    await client.query(
      `INSERT INTO delivery_counts
        SELECT 'ten_' || n, date_trunc('hour', now()) - n % 700 * interval '1 hour', 'ep_1', 'a', 0, 0, n, 1, 0, 0, 0, 0, 0
        FROM generate_series(1, $1::int) n`,
      [stored],
    );
    const sums =
      "SELECT count(*)::int AS n, sum(accepted)::int, md5(string_agg(d::text, '' ORDER BY d)) FROM delivery_counts d";
    const before = (await client.query(sums)).rows;
    await client.query("SELECT pg_stat_force_next_flush()");
    await client.query("SELECT pg_stat_reset()");
    expect(
      await migrateDatabase({ timers: machineTimers, adminUrl: database.adminUrl, nowMs: Date.now() }),
    ).toBe(3);
    const read = await eventually(async () => {
      const { rows } = await client.query<{ read: number }>(
        "SELECT seq_tup_read::int AS read FROM pg_stat_user_tables WHERE relname ~ '^delivery_counts_until_\\d{8}$'",
      );
      return rows.map((row) => row.read).find((rowsRead) => rowsRead >= stored);
    }, "the statistics of the migration");
    expect(read).toBeLessThan(2 * stored);
    expect((await client.query(sums)).rows).toEqual(before);
  } finally {
    await client.end();
    await database.drop();
  }
});

test.each([
  ["is counted again by workers if migration 0046 has not counted it", false],
  ["is left alone if the first text of migration 0046 has counted it", true],
])("what is stored %s", async (_what, counted) => {
  const database = await createTestDatabase();
  const client = new Client({ connectionString: database.adminUrl });
  await client.connect();
  try {
    await undivide(database.adminUrl);
    await execute(
      database.adminUrl,
      `DROP TABLE uncounted_hours; DELETE FROM schema_migrations WHERE version = 59;
      INSERT INTO delivery_counts SELECT 'ten_1', now(), 'ep_1', 'a', 0, 0, 1, 1, 0, 0, 0, 0, 0 WHERE ${counted}`,
    );
    expect(
      await migrateDatabase({ timers: machineTimers, adminUrl: database.adminUrl, nowMs: Date.now() }),
    ).toBe(4);
    const { rows } = await client.query<{ n: number }>("SELECT count(*)::int AS n FROM uncounted_hours");
    expect(rows[0]?.n === 0).toBe(counted);
  } finally {
    await client.end();
    await database.drop();
  }
});
