import type { Queryable } from "#database/pool.ts";
import { hasWayToSecurity } from "#database/repositories/tokens/operators.ts";
import { SignetError } from "#domain/errors.ts";

/**
 * Prevents that a change locks out everybody while the bootstrap operator is disabled. Must be called after the change,
 * within its transaction.
 *
 * @throws SignetError INVALID_STATE if no operator of role security can sign in any more
 */
export async function requireWayIn(db: Queryable, nowMs: number): Promise<void> {
  if (!(await hasWayToSecurity(db, nowMs))) {
    throw new SignetError("INVALID_STATE", {
      detail:
        "This change would lock out the last operator of role security, and the bootstrap operator is disabled.",
    });
  }
}
