/** Who calls the operators' API. */
import type { Actor } from "../../compliance/entry-types.ts";
import type { OperatorIdentity } from "../../domain/identity.ts";
import { OPERATOR_ROLES, operatorPermissions } from "../../domain/operator-roles.ts";

/** What the compliance log calls an operator. */
export function operatorActor(id: string): Actor {
  return `operator:${id}`;
}

/** Whoever holds the token that the service was set up with: may do everything. */
export const BOOTSTRAP_OPERATOR: OperatorIdentity = {
  id: "bootstrap",
  permissions: operatorPermissions(OPERATOR_ROLES),
};
