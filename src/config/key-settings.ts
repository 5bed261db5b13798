/** Settings of the service's keys. */
import { resolve } from "node:path";
import { keyMaterial, list, oneOf, type Parser, setting } from "./setting.ts";

function keys(value: string): readonly Buffer[] {
  return list(value).map(keyMaterial);
}

/** A key of AWS KMS by its ARN. An alias may be pointed at another key, which could not open what this one has wrapped. */
const AWS_KEY = /^arn:aws[a-z-]*:kms:([a-z0-9-]+):\d{12}:key\/[A-Za-z0-9-]+$/;
/** A key of Google Cloud KMS, without a version: the service knows the version of each ciphertext. */
const GOOGLE_KEY =
  /^projects\/[a-z0-9.:-]+\/locations\/[a-z0-9-]+\/keyRings\/[A-Za-z0-9_-]+\/cryptoKeys\/[A-Za-z0-9_-]+$/;

/** Algorithms of client assertions. Ed25519 is EdDSA's name in RFC 9864. */
const ASSERTION_ALGORITHMS = ["ES256", "ES384", "EdDSA", "Ed25519", "RS256", "PS256"] as const;
const assertionAlgorithm = oneOf(...ASSERTION_ALGORITHMS);

/** @throws Error for an unknown algorithm, or without any */
function assertionAlgorithms(value: string): readonly string[] {
  const algorithms = list(value).map(assertionAlgorithm);
  if (algorithms.length === 0) {
    throw new Error(`must name some of ${ASSERTION_ALGORITHMS.join(", ")}`);
  }
  return algorithms;
}

/** A key that a key management service holds. */
export interface KmsKey {
  /** The full name in the service. */
  readonly name: string;
  /** The region of an AWS key; undefined for Google's. */
  readonly awsRegion: string | undefined;
}

const kmsKey: Parser<KmsKey> = (name) => {
  const awsRegion = AWS_KEY.exec(name)?.[1];
  if (awsRegion === undefined && !GOOGLE_KEY.test(name)) {
    throw new Error(
      "must be the ARN of a key in AWS KMS (…:key/…, no alias) or projects/…/locations/…/keyRings/…/cryptoKeys/… of Google Cloud KMS",
    );
  }
  return { name, awsRegion };
};

function kmsKeys(value: string): readonly KmsKey[] {
  return list(value).map(kmsKey);
}

export const KEY_SETTINGS = {
  pepper: setting(
    "SIGNET_PEPPER",
    keyMaterial,
    undefined,
    "key of the client-secret MACs, base64, 32 bytes or more; generated in development",
  ),
  pepperFile: setting(
    "SIGNET_PEPPER_FILE",
    resolve,
    undefined,
    "file with its value, instead of SIGNET_PEPPER",
  ),
  previousPeppers: setting(
    "SIGNET_PEPPER_PREVIOUS",
    keys,
    "",
    "previous peppers, comma-separated; a client's MAC is renewed when the client signs in",
  ),
  kek: setting(
    "SIGNET_KEK",
    keyMaterial,
    undefined,
    "key-encryption key, base64, 32 bytes or more; generated in development",
  ),
  previousKeks: setting(
    "SIGNET_KEK_PREVIOUS",
    keys,
    "",
    "previous key-encryption keys, comma-separated; they only decrypt",
  ),
  kekFile: setting(
    "SIGNET_KEK_FILE",
    resolve,
    undefined,
    "file with one key-encryption key per line, newest first, instead of SIGNET_KEK; changes are read without a restart",
  ),
  kmsKek: setting(
    "SIGNET_KEK_KMS",
    kmsKey,
    undefined,
    "key in AWS KMS (its ARN) or Google Cloud KMS (`projects/…/cryptoKeys/…`) that encrypts instead of SIGNET_KEK; SIGNET_KEK and SIGNET_KEK_FILE then only decrypt",
  ),
  previousKmsKeks: setting(
    "SIGNET_KEK_KMS_PREVIOUS",
    kmsKeys,
    "",
    "further keys of that kind, comma-separated; they only decrypt",
  ),
  jwtAlg: setting(
    "SIGNET_JWT_ALG",
    oneOf("ES256", "RS256", "Ed25519"),
    "ES256",
    "algorithm of new keys that sign access tokens",
  ),
  setAlg: setting(
    "SIGNET_SET_ALG",
    oneOf("ES256", "RS256", "Ed25519"),
    undefined,
    "algorithm of new keys that sign security events; by default that of SIGNET_JWT_ALG. The CAEP interoperability profile requires RS256",
  ),
  clientAssertionAlgs: setting(
    "SIGNET_CLIENT_ASSERTION_ALGS",
    assertionAlgorithms,
    ASSERTION_ALGORITHMS.join(","),
    "algorithms of clients' assertions (`private_key_jwt`) that the token endpoint accepts and the metadata lists, comma-separated. FAPI 2.0: `PS256,ES256,EdDSA,Ed25519`",
  ),
} as const;

/** The values that are checked together. */
export interface KeyValues {
  readonly kekFile?: string | undefined;
  readonly kek?: Buffer | undefined;
  readonly previousKeks: readonly Buffer[];
  readonly operatorToken?: string | undefined;
}

/** Returns the problems of settings that contradict each other or are too short. */
export function keyProblems({ kekFile, kek, previousKeks, operatorToken }: KeyValues): string[] {
  const problems: string[] = [];
  if (kekFile !== undefined && (kek !== undefined || previousKeks?.length > 0)) {
    problems.push("SIGNET_KEK_FILE holds every key: leave SIGNET_KEK and SIGNET_KEK_PREVIOUS empty");
  }
  if (operatorToken !== undefined && operatorToken.length < 32) {
    problems.push("SIGNET_OPERATOR_TOKEN must have 32 characters or more");
  }
  return problems;
}
