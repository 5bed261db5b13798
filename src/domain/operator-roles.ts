/**
 * What operators may do. Whoever may change something may also look at it. Those who provision and those who see to security
 * have different routes, but not different reach: a credential reads a tenant's data, and `security` makes operators of any
 * role (docs/security-model.md).
 */

export const OPERATOR_ROLES = ["read", "provision", "security"] as const;
export type OperatorRole = (typeof OPERATOR_ROLES)[number];

const INCLUDES: Readonly<Record<OperatorRole, readonly OperatorRole[]>> = {
  read: ["read"],
  provision: ["read", "provision"],
  security: ["read", "security"],
};

/** What somebody with these roles may do. */
export function operatorPermissions(roles: readonly OperatorRole[]): ReadonlySet<OperatorRole> {
  return new Set(roles.flatMap((role) => INCLUDES[role]));
}

/** Whether the text is an operator's role. */
export function isOperatorRole(text: unknown): text is OperatorRole {
  return OPERATOR_ROLES.some((role) => role === text);
}
