/**
 * What of a refused form comes back in it. A secret never does, also where it was typed into a field that is for something
 * else: a private key in place of a public one, a password in an address.
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
/** Private keys in PEM, and the secrets that this service makes. */
const SECRETS = /-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----|whsec_[A-Za-z0-9+/]{8}|sgn_(?:live|test)_sk_/;
/** Headers whose values prove who sends (RFC 9110, 11; RFC 6265). */
const SECRET_HEADER = /^(\s*(?:authorization|proxy-authorization|cookie)\s*:).*$/gim;

function membersOf(text: string): readonly (readonly [string, unknown])[] | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === "object" && value !== null ? Object.entries(value) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether it is a private key where a public one is asked for: a JWK with private members, or a PEM block. */
export function isPrivateKey(text: string): boolean {
  return SECRETS.test(text) || (membersOf(text)?.some(([name]) => PRIVATE_MEMBERS.has(name)) ?? false);
}

/** A public key comes back if it is one: what cannot be read could be a private one that is spelt wrongly. */
export function publicKeyAgain(text: string): string {
  const members = membersOf(text);
  const isPublic =
    members?.every(([name, value]) => PUBLIC_MEMBERS.has(name) && typeof value === "string") ?? false;
  return isPublic && !SECRETS.test(text) ? text : "";
}

/** Certificates, and nothing beside them. */
export function certificatesAgain(text: string): string {
  return CERTIFICATES.test(text) ? text : "";
}

/** A text, unless it holds a secret that can be told by its form. */
export function textAgain(text: string): string {
  return SECRETS.test(text) ? "" : text;
}

/** An address without the user and password in it. */
export function addressAgain(text: string): string {
  return textAgain(text).replace(/^(\s*(?:(?:[a-z][a-z0-9+.-]*:)?[/\\]+)?)[^/\\?#]*@/i, "$1");
}

/** Lines `Name: value`, without the values of headers that are there to hold a secret. */
export function headersAgain(text: string): string {
  return textAgain(text).replaceAll(SECRET_HEADER, "$1");
}
