/**
 * Scopes: `resource:action`. A token holds a set of them; a check is exact membership, never a prefix or a wildcard
 * (security decisions A).
 */

/** Most scopes of one role or request. */
export const SCOPES_MAX = 64;
/** Publishing for another tenant; only principals of the platform tenant may hold it (wire.md, Events). */
export const PLATFORM_SCOPE = "events:publish_any";

/** The grammar of one scope, for schemas. */
export const SCOPE_PATTERN = "^[a-z][a-z0-9_-]{0,31}:[a-z][a-z0-9_-]{0,31}$";
const SCOPE_REGEX = new RegExp(SCOPE_PATTERN);

/** Whether the text is a scope. */
export function isScope(text: string): boolean {
  return SCOPE_REGEX.test(text);
}

/** Each scope once, in order: the one spelling of a set. */
export function scopeSet(scopes: Iterable<string>): string[] {
  return [...new Set(scopes)].sort();
}

/**
 * Reads a scope parameter (RFC 6749 section 3.3): scopes separated by single spaces.
 *
 * @returns the set, or `undefined` when the text is not well formed
 */
export function parseScopes(text: string): string[] | undefined {
  const scopes = text.split(" ");
  return scopes.length <= SCOPES_MAX && scopes.every(isScope) ? scopeSet(scopes) : undefined;
}
