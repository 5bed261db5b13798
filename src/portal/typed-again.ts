/**
 * Selects the values that a rejected form shows again. Secrets are never shown again, even in the wrong field: for
 * instance a private key instead of a public one, or a password in a URL.
 */

/** Private members of keys as JWKs (RFC 7518, 6.2.2, 6.3.2, 6.4; RFC 8037). */
const PRIVATE_MEMBERS: ReadonlySet<string> = new Set(["d", "p", "q", "dp", "dq", "qi", "oth", "k"]);
const PUBLIC_MEMBERS: ReadonlySet<string> = new Set([
  "kty",
  "crv",
  "n",
  "e",
  "x",
  "y",
  "kid",
  "use",
  "alg",
  "key_ops",
]);
const CERTIFICATES = /^(?:\s*-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*)+$/;
/** Private keys in PEM, and the secrets of this service. */
const SECRETS = /-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----|whsec_[A-Za-z0-9+/]{8}|sgn_(?:live|test)_sk_/;
/** Headers that authenticate the sender (RFC 9110, 11; RFC 6265). */
const SECRET_HEADER = /^(\s*(?:authorization|proxy-authorization|cookie)\s*:).*$/gim;

function membersOf(text: string): readonly (readonly [string, unknown])[] | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === "object" && value !== null ? Object.entries(value) : undefined;
  } catch {
    return undefined;
  }
}

/** Checks for a private key: a JWK with private members, or a PEM block. */
export function isPrivateKey(text: string): boolean {
  return SECRETS.test(text) || (membersOf(text)?.some(([name]) => PRIVATE_MEMBERS.has(name)) ?? false);
}

/** Returns the text only if it is a public key; malformed text could be a misspelt private key. */
export function publicKeyAgain(text: string): string {
  const members = membersOf(text);
  const isPublic =
    members?.every(([name, value]) => PUBLIC_MEMBERS.has(name) && typeof value === "string") ?? false;
  return isPublic && !SECRETS.test(text) ? text : "";
}

/** Returns the text only if it consists of certificates. */
export function certificatesAgain(text: string): string {
  return CERTIFICATES.test(text) ? text : "";
}

/** Returns the text, unless it contains a recognizable secret. */
export function textAgain(text: string): string {
  return SECRETS.test(text) ? "" : text;
}

/** Returns a URL without its user and password. */
export function addressAgain(text: string): string {
  return textAgain(text).replace(/^(\s*(?:(?:[a-z][a-z0-9+.-]*:)?[/\\]+)?)[^/\\?#]*@/i, "$1");
}

/** Returns `Name: value` lines without the values of authentication headers. */
export function headersAgain(text: string): string {
  return textAgain(text).replaceAll(SECRET_HEADER, "$1");
}
