import type { OperatorRole } from "#domain/operator-roles.ts";
import type { SignetError } from "#domain/errors.ts";
import { scopeViolation } from "#http/bearer-errors.ts";
import type { OperatorIdentity } from "#domain/identity.ts";

/** Returns a role in the form of a scope, for errors: `operator:provision`. */
function scopeOf(role: OperatorRole): string {
  return `operator:${role}`;
}

/**
 * Returns a 403 `SCOPE_VIOLATION` if the operator lacks the role. The document is that of tenants (contract 7,
 * security decisions J), with the role as the scope and in `missing_role`.
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
