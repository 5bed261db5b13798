/** Who calls the operators' API. */
import { OPERATOR_ROLES, operatorPermissions, type OperatorRole } from "../domain/operator-roles.ts";

export interface OperatorIdentity {
  /** The operator's id, or `bootstrap`: what the compliance log calls the actor. */
  readonly id: string;
  readonly permissions: ReadonlySet<OperatorRole>;
}

/** Whoever holds the token that the service was set up with: may do everything. */
export const BOOTSTRAP_OPERATOR: OperatorIdentity = {
  id: "bootstrap",
  permissions: operatorPermissions(OPERATOR_ROLES),
};
