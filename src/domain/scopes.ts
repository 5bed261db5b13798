/**
 * Scopes of the form `resource:action`. A token holds a set of them. A check is exact membership, without prefixes or
 * wildcards (security decisions A).
 */

/** Maximum number of scopes of one role or request. */
export const SCOPES_MAX = 64;
/** Scope for publishing on behalf of other tenants; only for principals of the platform tenant (contract 5.7). */
export const PLATFORM_SCOPE = "events:publish_any";

/** The pattern of one scope, for schemas. */
export const SCOPE_PATTERN = "^[a-z][a-z0-9_-]{0,31}:[a-z][a-z0-9_-]{0,31}$";
const SCOPE_REGEX = new RegExp(SCOPE_PATTERN);

/** Whether the text is a scope. */
export function isScope(text: string): boolean {
  return SCOPE_REGEX.test(text);
}

/** Returns the canonical form of a set: sorted, without duplicates. */
export function scopeSet(scopes: Iterable<string>): string[] {
  return [...new Set(scopes)].sort();
}

/**
 * Parses a scope parameter (RFC 6749 section 3.3): scopes separated by single spaces.
 *
 * @returns the set, or `undefined` if the text is malformed
 */
export function parseScopes(text: string): string[] | undefined {
  const scopes = text.split(" ");
  return scopes.length <= SCOPES_MAX && scopes.every(isScope) ? scopeSet(scopes) : undefined;
}
