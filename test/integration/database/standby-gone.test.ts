/** A primary whose synchronous standby is gone: PostgreSQL ends no COMMIT that waits for it, and no client's departure. */
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isDatabaseAway } from "#database/errors.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import { createLogger } from "#observability/logger.ts";
import { eventually } from "#test/support/eventually.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { type OwnDatabase, startOwnDatabase } from "#test/support/own-database.ts";

// Each commit is given up after some seconds.
allowMinutes(3);

const CONNECTIONS = 3;
/** While connections are given up, one more looks whether their backends still work. */
const LOOKING = 1;
const GIVEN_UP = 4 * CONNECTIONS;

let database: OwnDatabase;
let admin: Client;
let pool: Pool;

beforeAll(async () => {
  database = await startOwnDatabase();
  admin = new Client({ connectionString: database.adminUrl });
  await admin.connect();
  const log = createLogger({ level: "silent" });
  pool = createPool({
    url: database.url,
    role: "signet_worker",
    max: CONNECTIONS,
    log,
    statementMs: 200,
  });
});

afterAll(async () => {
  await pool.end();
  await admin.end();
  await database.drop();
});

/** Commits a record that waits for the standby. */
async function write(): Promise<void> {
  await transaction(
    pool,
    async (db) =>
      await db.query(
        "SELECT set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'signet', '')",
      ),
  );
}

async function backends(): Promise<number> {
  const { rows } = await admin.query<{ count: number }>(
    "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'signet_worker'",
  );
  return rows[0]?.count ?? 0;
}

test("commits that wait for a standby that is gone take no more connections than the pool has", async () => {
  await write();
  await admin.query("ALTER SYSTEM SET synchronous_standby_names = 'gone'");
  await admin.query("SELECT pg_reload_conf()");
  const failures: unknown[] = [];
  const publish = async (): Promise<void> => {
    while (failures.length < GIVEN_UP) {
      await write().catch((error: unknown) => failures.push(error));
    }
  };
  const publishers = Promise.all(Array.from({ length: CONNECTIONS }, publish));
  let most = 0;
  await eventually(
    async () => {
      most = Math.max(most, await backends());
      return failures.length >= GIVEN_UP;
    },
    "commits to be given up",
    120_000,
  );
  await publishers;
  expect(failures.filter((failure) => !isDatabaseAway(failure))).toEqual([]);
  expect(most).toBeGreaterThanOrEqual(CONNECTIONS);
  expect(most).toBeLessThanOrEqual(CONNECTIONS + LOOKING);
  expect(await backends()).toBeLessThanOrEqual(CONNECTIONS + LOOKING);

  await admin.query("ALTER SYSTEM RESET synchronous_standby_names");
  await admin.query("SELECT pg_reload_conf()");
  await eventually(
    async () =>
      await write().then(
        () => true,
        () => false,
      ),
    "the pool to write again",
  );
  await eventually(async () => (await backends()) <= CONNECTIONS, "the given up backends to end");
});
