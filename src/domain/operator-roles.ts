/**
 * The permissions of operators. Every role includes `read`. `provision` and `security` have different routes, but the
 * same reach: a credential reads a tenant's data, and `security` creates operators of any role
 * (docs/security-model.md).
 */

export const OPERATOR_ROLES = ["read", "provision", "security"] as const;
export type OperatorRole = (typeof OPERATOR_ROLES)[number];

const INCLUDES: Readonly<Record<OperatorRole, readonly OperatorRole[]>> = {
  read: ["read"],
  provision: ["read", "provision"],
  security: ["read", "security"],
};

/** Returns the permissions of an operator with these roles. */
export function operatorPermissions(roles: readonly OperatorRole[]): ReadonlySet<OperatorRole> {
  return new Set(roles.flatMap((role) => INCLUDES[role]));
}

/** Whether the text is an operator's role. */
export function isOperatorRole(text: unknown): text is OperatorRole {
  return OPERATOR_ROLES.some((role) => role === text);
}
