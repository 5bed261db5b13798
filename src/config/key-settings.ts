/** Settings of the service's keys. */
import { resolve } from "node:path";
import { keyMaterial, list, oneOf, setting } from "./setting.ts";

function keys(value: string): readonly Buffer[] {
  return list(value).map(keyMaterial);
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
  jwtAlg: setting(
    "SIGNET_JWT_ALG",
    oneOf("ES256", "RS256", "Ed25519"),
    "ES256",
    "algorithm of new signing keys",
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
