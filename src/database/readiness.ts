/** Readiness of PostgreSQL for this process: every pool answers, the schema is current, and writes work. */
import { DatabaseError } from "pg";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { within } from "#runtime/within.ts";
import { requireCurrentSchema } from "./migration-files.ts";
import { beginStatement, type Pool, type PoolClient, type Queryable } from "./pool.ts";
import type { Timers } from "#domain/clock.ts";

/** Timeout for trivial queries, in milliseconds. A connection that exceeds it is not used again. */
const ANSWER_MS = 2_000;
/** How long a result is reused, in milliseconds. Otherwise callers of `/readyz` could cause disk writes at any rate. */
const FRESH_MS = 1_000;
/**
 * A sort beyond its memory writes a file of some 300 kB, which requires the disk space that a growing table requires.
 * It has few wide rows: many narrow ones took more than half of PostgreSQL's time in an idle deployment. Without OFFSET
 * the rows would be widened after the sort.
 * The message is a record of the write-ahead log, whose commit waits for the disk. Neither leaves anything behind.
 */
const WRITE = `SELECT current_setting('transaction_read_only') AS read_only, set_config('work_mem', '64kB', true);
  SELECT max(line) IS NULL FROM (
    SELECT line FROM (
      SELECT n, n || repeat(' ', 1000) AS line FROM generate_series(1, 300) AS n OFFSET 0
    ) AS wide ORDER BY n DESC OFFSET 0) AS sorted;
  SELECT pg_logical_emit_message(true, 'signet', '')`;
/** The login may not perform the test: no permission, no such function, or limited temporary files. */
const CANNOT_TELL = /^(?:42501|42883|53400)$/;

export interface DatabaseReadinessOptions {
  /** The pools, all of which must answer. The first one is used to check the schema. */
  readonly pools: readonly [Pool, ...Pool[]];
  /** Whether the process requires a writable database. */
  readonly writes: boolean;
  readonly timers: Timers;
}

async function connect(pool: Pool, timers: Timers): Promise<PoolClient> {
  const connecting = pool.connect();
  try {
    return await within(timers, ANSWER_MS, connecting);
  } catch (error) {
    connecting.then(
      (late) => late.release(),
      () => undefined,
    );
    throw error;
  }
}

/** Asks in a transaction of the pool. Closes its connection if it does not answer in time. */
async function ask(pool: Pool, timers: Timers, question: (db: Queryable) => Promise<unknown>): Promise<void> {
  const client = await connect(pool, timers);
  let broken = true;
  const answer = async (): Promise<void> => {
    await client.query(beginStatement(pool));
    await question(client);
    await client.query("COMMIT");
  };
  try {
    await within(timers, ANSWER_MS, answer());
    broken = false;
  } finally {
    client.release(broken);
  }
}

/** @throws if nothing can be written: the disk is full or fails, or this is a standby */
async function requireWritable(db: Queryable): Promise<void> {
  try {
    const results: unknown = await db.query(WRITE);
    const [first] = results as readonly [{ readonly rows: readonly { readonly read_only: string }[] }];
    if (first.rows[0]?.read_only === "on") {
      throw new Error("PostgreSQL accepts no writes: its transactions are read-only");
    }
  } catch (error) {
    if (!(error instanceof DatabaseError && CANNOT_TELL.test(error.code ?? ""))) {
      throw error;
    }
  }
}

/** Creates the check. Its result is reused for a second. */
export function databaseReadiness({ pools, writes, timers }: DatabaseReadinessOptions): ReadinessCheck {
  const [first, ...others] = pools;
  let found: Promise<unknown> | undefined;
  let askedAt = 0;
  const look = async (): Promise<void> => {
    await Promise.all([
      ask(first, timers, requireCurrentSchema),
      ...others.map(async (pool) => await ask(pool, timers, async (db) => await db.query("SELECT"))),
      ...(writes ? [ask(others[0] ?? first, timers, requireWritable)] : []),
    ]);
  };
  return {
    name: "database",
    check: async () => {
      if (found === undefined || timers.monotonic() - askedAt >= FRESH_MS) {
        askedAt = timers.monotonic();
        found = look();
      }
      await found;
    },
  };
}
