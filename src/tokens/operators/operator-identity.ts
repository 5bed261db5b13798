/** Identities of operators. */
import type { Actor } from "#compliance/entry-types.ts";
import type { OperatorIdentity } from "#domain/identity.ts";
import { OPERATOR_ROLES, operatorPermissions } from "#domain/operator-roles.ts";

/** Returns the operator's name in the compliance log. */
export function operatorActor(id: string): Actor {
  return `operator:${id}`;
}

/** The operator with the bootstrap token, who has every permission. */
export const BOOTSTRAP_OPERATOR: OperatorIdentity = {
  id: "bootstrap",
  permissions: operatorPermissions(OPERATOR_ROLES),
};
