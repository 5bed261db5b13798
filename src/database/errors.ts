import { DatabaseError } from "pg";
import { UrlFileError } from "#config/url-file.ts";
import { DuplicateError } from "#domain/errors.ts";
import type { Timers } from "#domain/clock.ts";

/**
 * Whether PostgreSQL rejected a statement for its content (SQLSTATE classes 21, 22 and 23: cardinality, data exception,
 * integrity violation), so that a retry cannot succeed. Other errors may pass: connection, lock, shutdown, resources.
 */
export function isDataError(error: unknown): boolean {
  return error instanceof DatabaseError && error.code !== undefined && /^2[123]/.test(error.code);
}

/** Too many callers wait for the database. The request has not begun. */
export class DatabaseBusyError extends Error {
  override readonly name = "DatabaseBusyError";
}

/**
 * Connection exceptions; a login that is rejected, for instance while its password is changed; no disk, memory or
 * connection left; a standby; a database that accepts no connections; a statement timeout; shutdown, crash, start-up; a
 * failing disk.
 */
const AWAY = /^(?:08...|28000|28P01|53...|25006|55000|57014|57P0[1-5]|58030)$/;
const NO_CONNECTION: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
]);
/** Messages of `pg` and its pool that have no code. */
const LOST =
  /^(?:Connection terminated|timeout ex(?:ceeded|pired)|Client has encountered a connection error|Client was closed)/;

/** Whether a query failed because the database is unavailable, so that it may succeed later. */
export function isDatabaseAway(error: unknown): boolean {
  if (error instanceof DatabaseError) {
    // What is fatal ended the connection. On a full disk, a new one fails with XX000, which can mean anything.
    return error.severity === "FATAL" || AWAY.test(error.code ?? "") || isContention(error);
  }
  if (error instanceof AggregateError) {
    // The host name has several addresses.
    return error.errors.some(isDatabaseAway);
  }
  if (!(error instanceof Error)) {
    return false;
  }
  if (error instanceof DatabaseBusyError || error instanceof UrlFileError) {
    return true;
  }
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? LOST.test(error.message) : NO_CONNECTION.has(code);
}

/** Whether a unique constraint rejected a row. */
function isUniqueViolation(error: unknown, constraint?: string): boolean {
  return (
    error instanceof DatabaseError &&
    error.code === "23505" &&
    (constraint === undefined || error.constraint === constraint)
  );
}

/**
 * Waits for a statement, and reports a violation of certain unique constraints to its caller.
 *
 * @param messages the messages, by the constraint's name
 * @throws DuplicateError
 */
export async function reportDuplicates<T>(
  statement: Promise<T>,
  messages: Readonly<Record<string, string>>,
): Promise<T> {
  try {
    return await statement;
  } catch (error) {
    const constraint = Object.keys(messages).find((name) => isUniqueViolation(error, name));
    throw constraint === undefined ? error : new DuplicateError(messages[constraint], { cause: error });
  }
}

/** Whether a trigger rejected a row because of another row's state. Triggers use their own name as the constraint. */
export function isRefusedByState(error: unknown, constraint: string): boolean {
  return error instanceof DatabaseError && error.code === "55000" && error.constraint === constraint;
}

/** Whether a row fits no partition of a table. */
export function isWithoutPartition(error: unknown, table: string): boolean {
  return (
    error instanceof DatabaseError &&
    error.code === "23514" &&
    error.table === table &&
    error.constraint === undefined
  );
}

/** Whether PostgreSQL ended a transaction in favour of others: a deadlock, a lock timeout, a serialization failure. */
export function isContention(error: unknown): boolean {
  return isRepeatable(error) || (error instanceof DatabaseError && error.code === "55P03");
}

/**
 * Not a lock timeout: a statement has one so that others do not wait behind it for longer. They would, if it were
 * repeated at once.
 */
function isRepeatable(error: unknown): boolean {
  return error instanceof DatabaseError && /^(?:40001|40P01)$/.test(error.code ?? "");
}

const CONTENTION_TRIES = 5;

/** Repeats a statement or a transaction that PostgreSQL ended in favour of others. It has left nothing behind. */
export async function repeatContended<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (tries === CONTENTION_TRIES || !isRepeatable(error)) {
        throw error;
      }
    }
  }
}

/** Between two tries to get locks for which others wait, in milliseconds. */
const GIVE_WAY_MS = 100;
/** At least a minute in all. */
const GIVE_WAY_TRIES = 600;

/** How {@link giveWay} waits. */
export interface Patience {
  readonly timers: Pick<Timers, "sleep">;
  /** Returns a number from 0 to 1. */
  readonly random?: (() => number) | undefined;
}

/**
 * Repeats a transaction that waits for its locks briefly, because others wait behind it, until it returns a value.
 *
 * @throws Error after a minute of tries
 */
export async function giveWay<T>(
  work: () => Promise<T | undefined>,
  { timers, random = Math.random }: Patience,
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      const result = await work();
      if (result !== undefined) {
        return result;
      }
      if (tries === GIVE_WAY_TRIES) {
        throw new Error("others change the rows faster than they are copied");
      }
    } catch (error) {
      if (tries === GIVE_WAY_TRIES || !isContention(error)) {
        throw error;
      }
    }
    await timers.sleep(GIVE_WAY_MS * (1 + random()));
  }
}

/** Whether a statement names a table, a column, a role or a function that the schema lacks, or has not granted. */
export function isSchemaError(error: unknown): boolean {
  return error instanceof DatabaseError && /^42(?:P01|501|703|704|883)$/.test(error.code ?? "");
}
