import { DatabaseError } from "pg";

/**
 * Whether PostgreSQL refused a statement for what it says (SQLSTATE classes 21, 22 and 23: cardinality, data exception,
 * integrity violation), so that saying it again cannot help. Everything else may pass: connection, lock, shutdown, resources.
 */
export function isDataError(error: unknown): boolean {
  return error instanceof DatabaseError && error.code !== undefined && /^2[123]/.test(error.code);
}

/** More wait for the database than may; what was asked for has not begun. */
export class DatabaseBusyError extends Error {
  override readonly name = "DatabaseBusyError";
}

/**
 * Connection exceptions; no disk, memory or connection left; a standby; a database that takes no connections; a statement
 * over its time; shutdown, crash, start-up; a disk that fails.
 */
const AWAY = /^(?:08...|53...|25006|55000|57014|57P0[1-5]|58030)$/;
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
/** What `pg` and its pool say without a code. */
const LOST =
  /^(?:Connection terminated|timeout ex(?:ceeded|pired)|Client has encountered a connection error|Client was closed)/;

/** Whether a query failed because the database is away, so that the same query may succeed when it is back. */
export function isDatabaseAway(error: unknown): boolean {
  if (error instanceof DatabaseError) {
    return AWAY.test(error.code ?? "");
  }
  if (error instanceof AggregateError) {
    // A host name with several addresses.
    return error.errors.some(isDatabaseAway);
  }
  if (!(error instanceof Error)) {
    return false;
  }
  if (error instanceof DatabaseBusyError) {
    return true;
  }
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? LOST.test(error.message) : NO_CONNECTION.has(code);
}

/** Whether a unique constraint refused a row. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  return (
    error instanceof DatabaseError &&
    error.code === "23505" &&
    (constraint === undefined || error.constraint === constraint)
  );
}

/** Whether a trigger refused a row because of the state of something else; triggers name themselves as the constraint. */
export function isRefusedByState(error: unknown, constraint: string): boolean {
  return error instanceof DatabaseError && error.code === "55000" && error.constraint === constraint;
}

/** Whether PostgreSQL ended a transaction because it and another waited for each other: the same again may succeed. */
export function isDeadlock(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === "40P01";
}
