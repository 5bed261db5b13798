import type { OperatorRole } from "../../domain/operator-roles.ts";
import type { SignetError } from "../../domain/errors.ts";
import { scopeViolation } from "../../http/bearer-errors.ts";
import type { OperatorIdentity } from "../../domain/identity.ts";

/** A role as the scope that it is in errors: `operator:provision`. */
function scopeOf(role: OperatorRole): string {
  return `operator:${role}`;
}

/**
 * 403 `SCOPE_VIOLATION` for an operator whose role is too small, or nothing. The same document as a tenant gets
 * (specification 7, security decisions J), with the role in place of the scope and named in `missing_role`.
 */
export function roleViolation(
  operation: string,
  required: OperatorRole,
  { permissions }: OperatorIdentity,
): SignetError | undefined {
  return scopeViolation({
    operation,
    required: [scopeOf(required)],
    granted: new Set([...permissions].map(scopeOf)),
    detail: `${operation} requires an operator of role ${required}.`,
    extensions: { missing_role: required },
  });
}
