/** Who calls the operators' API. */
import type { Actor } from "../../compliance/entry-types.ts";
import { OPERATOR_ROLES, operatorPermissions, type OperatorRole } from "../../domain/operator-roles.ts";

export interface OperatorIdentity {
  /** The operator's id, or `bootstrap`. */
  readonly id: string;
  readonly permissions: ReadonlySet<OperatorRole>;
}

/** What the compliance log calls an operator. */
export function operatorActor(id: string): Actor {
  return `operator:${id}`;
}

/** Whoever holds the token that the service was set up with: may do everything. */
export const BOOTSTRAP_OPERATOR: OperatorIdentity = {
  id: "bootstrap",
  permissions: operatorPermissions(OPERATOR_ROLES),
};
