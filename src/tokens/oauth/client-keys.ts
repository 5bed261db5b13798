/** The public keys of clients that sign assertions: the accepted kinds, and the algorithms of each. */
import { createHash, createPublicKey, type KeyObject } from "node:crypto";
import type { ClientKeySet } from "#database/repositories/tokens/workload-credentials.ts";
import { validationFailed } from "#domain/errors.ts";
import { soundKey, weaknessOf } from "#lib/public-key.ts";
import { PRINTED_KEYS } from "./printed-keys.ts";

export const CLIENT_KEYS_MAX = 8;
const PRIVATE_MEMBERS = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"] as const;
const PUBLIC_MEMBERS = ["kty", "crv", "x", "y", "n", "e", "kid", "alg"] as const;

/** One registered key. */
export type ClientJwk = ClientKeySet["keys"][number];

/** Returns those of the permitted algorithms that a key is for: the one that it names, else all of its kind. */
export function algorithmsOf({ kty, crv, alg }: ClientJwk, permitted: readonly string[]): readonly string[] {
  const kinds: Readonly<Record<string, readonly string[]>> = {
    "EC P-256": ["ES256"],
    "EC P-384": ["ES384"],
    "OKP Ed25519": ["EdDSA", "Ed25519"],
    RSA: ["RS256", "PS256"],
  };
  const possible = kinds[kty === "RSA" ? "RSA" : `${kty} ${crv}`] ?? [];
  return possible.filter((name) => permitted.includes(name) && (alg === undefined || name === alg));
}

/** Opens a registered key. @throws if it is invalid, or must not be used: earlier versions registered such keys */
export function openClientKey(jwk: ClientJwk): KeyObject {
  return soundKey(createPublicKey({ key: jwk, format: "jwk" }));
}

/** Members of a JWK's thumbprint, in its order (RFC 7638 section 3.2). */
const THUMBPRINT_MEMBERS: Readonly<Record<string, readonly string[]>> = {
  EC: ["crv", "kty", "x", "y"],
  OKP: ["crv", "kty", "x"],
  RSA: ["e", "kty", "n"],
};

function thumbprintOf(key: KeyObject): string {
  // As exported, because other spellings of the same numbers would have another thumbprint.
  const jwk = key.export({ format: "jwk" });
  const members = THUMBPRINT_MEMBERS[jwk.kty ?? ""]?.map((name) => [name, jwk[name]]) ?? [];
  return createHash("sha256")
    .update(JSON.stringify(Object.fromEntries(members)))
    .digest("base64url");
}

function problemOf(jwk: Readonly<Record<string, unknown>>, permitted: readonly string[]): string | undefined {
  if (PRIVATE_MEMBERS.some((member) => jwk[member] !== undefined)) {
    return "holds a private key; register public keys only";
  }
  const members = PUBLIC_MEMBERS.map((member) => jwk[member]).filter((member) => member !== undefined);
  if (!members.every((member) => typeof member === "string") || (jwk["use"] ?? "sig") !== "sig") {
    return "is not a signature key in JWK form";
  }
  if (algorithmsOf(jwk as ClientJwk, permitted).length === 0) {
    return `is not supported: use P-256, P-384, Ed25519 or RSA, with one of the algorithms ${permitted.join(", ")}`;
  }
  try {
    const key = createPublicKey({ key: jwk, format: "jwk" });
    const weakness = weaknessOf(key);
    if (weakness !== undefined) {
      return weakness;
    }
    const standard = PRINTED_KEYS.get(thumbprintOf(key));
    return standard === undefined
      ? undefined
      : `is an example of ${standard}, which prints its private half: anybody could sign with it. Generate a key`;
  } catch {
    return "cannot be read";
  }
}

/**
 * Returns the key set to store: public members only.
 *
 * @param permitted algorithms of assertions that the service accepts
 * @throws SignetError `VALIDATION_FAILED` for unusable keys, and for several keys without distinct `kid`s
 */
export function acceptedKeySet(
  keys: readonly Readonly<Record<string, unknown>>[],
  permitted: readonly string[],
): ClientKeySet {
  const problems = keys.flatMap((jwk, index) => {
    const detail = problemOf(jwk, permitted);
    return detail === undefined ? [] : [{ pointer: `/jwks/keys/${index}`, code: "bad_key", detail }];
  });
  const ids = new Set(keys.map(({ kid }) => kid));
  if (problems.length === 0 && keys.length > 1 && (ids.size !== keys.length || ids.has(undefined))) {
    problems.push({ pointer: "/jwks/keys", code: "bad_key", detail: "must each have a different kid" });
  }
  if (problems.length > 0) {
    throw validationFailed(problems);
  }
  return {
    keys: keys.map((jwk) =>
      Object.fromEntries(PUBLIC_MEMBERS.map((member) => [member, jwk[member]]).filter(isTextEntry)),
    ),
  };
}

function isTextEntry(entry: readonly unknown[]): entry is readonly [string, string] {
  return typeof entry[1] === "string";
}
