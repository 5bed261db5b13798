/** The public keys of clients that sign assertions: the accepted kinds, and the algorithms of each. */
import { createPublicKey, type KeyObject } from "node:crypto";
import type { ClientKeySet } from "../../database/repositories/tokens/workload-credentials.ts";
import { validationFailed } from "../../domain/errors.ts";

/** Algorithms of client assertions, as the metadata names them. */
export const ASSERTION_ALGORITHMS = ["ES256", "ES384", "EdDSA", "Ed25519", "RS256", "PS256"] as const;

export const CLIENT_KEYS_MAX = 8;
const RSA_BITS_MIN = 2_048;
const PRIVATE_MEMBERS = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"] as const;
const PUBLIC_MEMBERS = ["kty", "crv", "x", "y", "n", "e", "kid", "alg"] as const;

/** One registered key. */
export type ClientJwk = ClientKeySet["keys"][number];

/** Returns the algorithms for a key: the one that it names, else all of its kind. */
export function algorithmsOf({ kty, crv, alg }: ClientJwk): readonly string[] {
  const kinds: Readonly<Record<string, readonly string[]>> = {
    "EC P-256": ["ES256"],
    "EC P-384": ["ES384"],
    "OKP Ed25519": ["EdDSA", "Ed25519"],
    RSA: ["RS256", "PS256"],
  };
  const possible = kinds[kty === "RSA" ? "RSA" : `${kty} ${crv}`] ?? [];
  return alg === undefined ? possible : possible.filter((name) => name === alg);
}

/** Opens a registered key. @throws if it is invalid */
export function openClientKey(jwk: ClientJwk): KeyObject {
  return createPublicKey({ key: jwk, format: "jwk" });
}

function problemOf(jwk: Readonly<Record<string, unknown>>): string | undefined {
  if (PRIVATE_MEMBERS.some((member) => jwk[member] !== undefined)) {
    return "holds a private key; register public keys only";
  }
  const members = PUBLIC_MEMBERS.map((member) => jwk[member]).filter((member) => member !== undefined);
  if (!members.every((member) => typeof member === "string") || (jwk["use"] ?? "sig") !== "sig") {
    return "is not a signature key in JWK form";
  }
  if (algorithmsOf(jwk as ClientJwk).length === 0) {
    return "is not supported: use P-256, P-384, Ed25519 or RSA, with a matching algorithm";
  }
  try {
    const { asymmetricKeyDetails: details } = openClientKey(jwk as ClientJwk);
    return jwk["kty"] === "RSA" && (details?.modulusLength ?? 0) < RSA_BITS_MIN
      ? `must have ${RSA_BITS_MIN} bits or more`
      : undefined;
  } catch {
    return "cannot be read";
  }
}

/**
 * Returns the key set to store: public members only.
 *
 * @throws SignetError `VALIDATION_FAILED` for unusable keys, and for several keys without distinct `kid`s
 */
export function acceptedKeySet(keys: readonly Readonly<Record<string, unknown>>[]): ClientKeySet {
  const problems = keys.flatMap((jwk, index) => {
    const detail = problemOf(jwk);
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
