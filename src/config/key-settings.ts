/** Settings of the keys that the service keeps and signs with. */
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
    "key of the client-secret MACs, base64, 32 bytes or more; development makes one",
  ),
  pepperFile: setting(
    "SIGNET_PEPPER_FILE",
    resolve,
    undefined,
    "file that holds it, instead of SIGNET_PEPPER",
  ),
  previousPeppers: setting(
    "SIGNET_PEPPER_PREVIOUS",
    keys,
    "",
    "earlier peppers, comma-separated; their MACs are made anew when a client signs in",
  ),
  kek: setting(
    "SIGNET_KEK",
    keyMaterial,
    undefined,
    "key-encryption key, base64, 32 bytes or more; development makes one",
  ),
  previousKeks: setting(
    "SIGNET_KEK_PREVIOUS",
    keys,
    "",
    "further key-encryption keys, comma-separated: they open what they have wrapped",
  ),
  kekFile: setting(
    "SIGNET_KEK_FILE",
    resolve,
    undefined,
    "file of key-encryption keys, a line each, newest first, instead of SIGNET_KEK; read again without a restart",
  ),
  jwtAlg: setting(
    "SIGNET_JWT_ALG",
    oneOf("ES256", "RS256", "Ed25519"),
    "ES256",
    "algorithm of signing keys made from now on",
  ),
} as const;

/** The values of the settings that belong together. */
export interface KeyValues {
  readonly kekFile?: string | undefined;
  readonly kek?: Buffer | undefined;
  readonly previousKeks: readonly Buffer[];
  readonly operatorToken?: string | undefined;
}

/** What does not fit together, or is too short. */
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
