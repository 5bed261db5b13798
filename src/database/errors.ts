import { DatabaseError } from "pg";

/**
 * Whether PostgreSQL refused a statement for what it says (SQLSTATE classes 21, 22 and 23: cardinality, data exception,
 * integrity violation), so that saying it again cannot help. Everything else may pass: connection, lock, shutdown, resources.
 */
export function isDataError(error: unknown): boolean {
  return error instanceof DatabaseError && error.code !== undefined && /^2[123]/.test(error.code);
}

/** Whether a unique constraint refused a row. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  return (
    error instanceof DatabaseError &&
    error.code === "23505" &&
    (constraint === undefined || error.constraint === constraint)
  );
}
