import type { Queryable } from "../../database/pool.ts";
import { hasWayToSecurity } from "../../database/repositories/tokens/operators.ts";
import { SignetError } from "../../domain/errors.ts";

/**
 * Where the bootstrap operator is switched off, nobody may lock out everybody: called after a change, within its
 * transaction.
 *
 * @throws SignetError INVALID_STATE when no operator of role security is left who has a way in
 */
export async function requireWayIn(db: Queryable, nowMs: number): Promise<void> {
  if (!(await hasWayToSecurity(db, nowMs))) {
    throw new SignetError("INVALID_STATE", {
      detail: "This is the last way in for an operator of role security, and the bootstrap operator is off.",
    });
  }
}
