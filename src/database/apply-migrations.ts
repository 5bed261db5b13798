/**
 * Applies migrations beside publishers, deliveries and readers (decision 36). A statement that waits for a lock stops
 * everything that comes after it at the table. So each waits briefly, and the whole migration is repeated after a pause.
 */
import type { Client } from "pg";
import type { Logger } from "pino";
import { isContention, isSchemaError } from "./errors.ts";
import { type MigrationFile, readSchemaState } from "./migration-files.ts";
import type { Timers } from "#domain/clock.ts";

/** How long a lock may be waited for that stops others, in milliseconds. Shorter than PostgreSQL's check for deadlocks. */
const LOCK_MS = 200;
/** The same for locks that stop only maintenance. After a second, PostgreSQL ends an autovacuum that is in the way. */
const MAINTENANCE_LOCK_MS = 5_000;
/** The same for an index that is built beside writers: it waits for all transactions that are older. */
const BUILD_LOCK_MS = 60_000;
const PAUSE_MS = 1_000;
/** Ten minutes and more. */
const TRIES_MAX = 600;

/** The session that migrates. */
export interface Migrator {
  readonly client: Client;
  readonly timers: Pick<Timers, "sleep">;
  readonly log?: Logger | undefined;
}

/** What the session begins with, whatever the login's and the database's own settings are. */
const SESSION = `SET search_path = public; SET TimeZone = 'UTC'; SET DateStyle = 'ISO, MDY';
  SET IntervalStyle = 'postgres'; SET standard_conforming_strings = on; SET statement_timeout = 0;
  SET idle_in_transaction_session_timeout = 0; SET idle_session_timeout = 0; SET lock_timeout = ${LOCK_MS}`;

/** Prepares the session, and waits until no other migrates. */
export async function openSession({ client, timers, log }: Migrator, lockKey: bigint): Promise<void> {
  await client.query(SESSION);
  // A statement that waits for the lock would be a transaction, which the other's indexes wait for.
  for (let said = false; ; said = true) {
    const { rows } = await client.query<{ taken: boolean }>("SELECT pg_try_advisory_lock($1) AS taken", [
      lockKey.toString(),
    ]);
    if (rows[0]?.taken === true) {
      return;
    }
    if (!said) {
      log?.info("another migration is running; waiting for its end");
    }
    await timers.sleep(PAUSE_MS);
  }
}

/** Returns which transaction has been open for longest, as a hint for operators. */
async function oldestTransaction(client: Client): Promise<Record<string, unknown> | undefined> {
  const { rows } = await client.query<Record<string, unknown>>(
    `SELECT pid, application_name, state, xact_start FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
      ORDER BY xact_start LIMIT 1`,
  );
  return rows[0];
}

/** Repeats work that gave way to other transactions, for ten minutes. */
export async function patiently<T>(
  { client, timers, log }: Migrator,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (tries === TRIES_MAX || !isContention(error)) {
        throw error;
      }
      const oldest = await oldestTransaction(client);
      log?.info({ what, tries, oldest }, "gave way to other transactions; trying again");
      await timers.sleep(PAUSE_MS);
    }
  }
}

/** `CREATE INDEX` in a migration. */
interface IndexStatement {
  readonly unique: string;
  readonly name: string;
  readonly table: string;
  /** Everything after the table. */
  readonly rest: string;
}

const INDEX = /^CREATE (UNIQUE )?INDEX (?:IF NOT EXISTS )?(\w+) ON (\w+) ([^;]+);/gm;

function withoutComments(sql: string): string {
  return sql.replaceAll(/--.*/g, "");
}

/** Returns the statements that create indexes. Exported for the test that it misses none. */
export function indexesOf(sql: string): IndexStatement[] {
  return [...withoutComments(sql).matchAll(INDEX)].map(
    ([, unique = "", name = "", table = "", rest = ""]) => ({ unique, name, table, rest }),
  );
}

/** Returns the table, or its partitions, as far as there are rows. Empty if it does not exist yet. */
async function filledTables(client: Client, table: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT c.relname AS name FROM pg_partition_tree(to_regclass($1)) t JOIN pg_class c ON c.oid = t.relid
      WHERE t.isleaf AND pg_relation_size(c.oid) > 0
      UNION SELECT relname FROM pg_class
      WHERE oid = to_regclass($1) AND relkind = 'r' AND pg_relation_size(oid) > 0 ORDER BY 1`,
    [table],
  );
  return rows.map(({ name }) => name);
}

/** Builds an index beside writers. One that an interrupted build has left is built again. */
async function buildIndex(client: Client, statement: string, name: string): Promise<void> {
  const { rows } = await client.query<{ valid: boolean }>(
    "SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = to_regclass($1)",
    [name],
  );
  if (rows[0]?.valid === true) {
    return;
  }
  await client.query(`SET lock_timeout = ${BUILD_LOCK_MS}`);
  try {
    await client.query(`DROP INDEX CONCURRENTLY IF EXISTS ${name}`);
    await client.query(statement);
  } finally {
    await client.query(`SET lock_timeout = ${LOCK_MS}`);
  }
}

/**
 * Builds the indexes of a migration on existing rows beforehand. A partitioned table takes over those of its partitions,
 * so the migration's own statement reads no rows.
 */
async function buildIndexes(migrator: Migrator, { name: migration, sql }: MigrationFile): Promise<void> {
  const { client, log } = migrator;
  for (const { unique, name, table, rest } of indexesOf(sql)) {
    for (const filled of await filledTables(client, table)) {
      const own = `${name}${filled.slice(table.length)}`;
      const statement = `CREATE ${unique}INDEX CONCURRENTLY ${own} ON ${filled} ${rest}`;
      try {
        await patiently(migrator, own, async () => await buildIndex(client, statement, own));
      } catch (error) {
        // The migration itself adds what the index is about.
        if (isSchemaError(error)) {
          break;
        }
        throw error;
      }
      log?.info({ migration, index: own }, "index built");
    }
  }
}

/** Returns the existing tables that a migration changes. */
async function changedTables(client: Client, sql: string): Promise<string[]> {
  const names = [...withoutComments(sql).matchAll(/\b(?:TABLE|ON|REFERENCES|DROP INDEX)\s+(\w+)/g)].map(
    ([, name = ""]) => name,
  );
  const { rows } = await client.query<{ name: string }>(
    `SELECT relname AS name FROM pg_class c
      WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND (relname = ANY ($1::text[])
        OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indexrelid::regclass::text = ANY ($1::text[])))
      ORDER BY relname <> 'events', relname`,
    [names],
  );
  return rows.map(({ name }) => name);
}

async function applyOnce(
  client: Client,
  { version, name, sql, sha256 }: MigrationFile,
  at: Date,
): Promise<void> {
  const tables = await changedTables(client, sql);
  await client.query("BEGIN");
  try {
    if (tables.length > 0) {
      // Ends autovacuums, and stops neither readers nor writers.
      await client.query(`SET LOCAL lock_timeout = ${MAINTENANCE_LOCK_MS};
        LOCK TABLE ${tables.join(", ")} IN SHARE UPDATE EXCLUSIVE MODE; SET LOCAL lock_timeout = ${LOCK_MS}`);
    }
    await client.query("INSERT INTO schema_migrations VALUES ($1, $2, $3, $4)", [version, name, sha256, at]);
    await client.query(sql.replaceAll(/^(CREATE (?:UNIQUE )?INDEX) (?!IF )/gm, "$1 IF NOT EXISTS "));
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  }
}

/** Applies the migrations that are missing, each in one transaction. Returns their number. */
export async function applyMigrations(migrator: Migrator, nowMs: number): Promise<number> {
  const { client, log } = migrator;
  const { pending, changed } = await readSchemaState(client);
  if (changed !== undefined) {
    throw new Error(
      `${changed} was changed after it was applied; migrations are forward-only: add a new file`,
    );
  }
  for (const migration of pending) {
    try {
      await buildIndexes(migrator, migration);
      await patiently(
        migrator,
        migration.name,
        async () => await applyOnce(client, migration, new Date(nowMs)),
      );
    } catch (error) {
      throw new Error(`migration ${migration.name} failed`, { cause: error });
    }
    log?.info({ migration: migration.name }, "migration applied");
  }
  return pending.length;
}
