/** Service secrets: those of a process, from its settings. Development generates missing ones once and keeps them. */
import { type Config, ConfigError } from "../config/config.ts";
import type { RandomBytes } from "../domain/ids.ts";
import { readOrCreateKey } from "./development-keys.ts";
import { createKeyEncryption, fixedKeys, keysOfFile, type ReadKeys } from "./key-encryption.ts";
import { createKeyring, type Keyring } from "./keyring.ts";
import { createPepper, type Pepper } from "./pepper.ts";

/** Name of the operator token's file under SIGNET_HOME. */
export const OPERATOR_TOKEN_FILE = "operator-token";

export interface ServiceSecrets {
  readonly pepper: Pepper;
  readonly keyring: Keyring;
}

type SecretSettings = Pick<
  Config,
  "development" | "home" | "pepper" | "previousPeppers" | "kek" | "previousKeks" | "kekFile"
>;

async function keySource(config: SecretSettings, randomBytes: RandomBytes): Promise<ReadKeys> {
  const { kek, previousKeks, kekFile, development, home } = config;
  if (kekFile !== undefined) {
    return keysOfFile(kekFile);
  }
  if (kek !== undefined) {
    return fixedKeys([kek, ...previousKeks]);
  }
  if (!development) {
    throw new ConfigError(["SIGNET_KEK or SIGNET_KEK_FILE must be set in production"]);
  }
  return fixedKeys([await madeKey(home, "kek", randomBytes), ...previousKeks]);
}

async function madeKey(home: string, name: string, randomBytes: RandomBytes): Promise<Buffer> {
  return Buffer.from(await readOrCreateKey(home, name, randomBytes), "base64url");
}

/**
 * Returns the pepper and the keyring.
 *
 * @throws ConfigError in production if one is not set
 */
export async function loadServiceSecrets(
  config: SecretSettings,
  randomBytes: RandomBytes,
): Promise<ServiceSecrets> {
  const { pepper, previousPeppers, development, home } = config;
  const readKeys = await keySource(config, randomBytes);
  // Report a faulty key file at start, not at the first delivery.
  await readKeys();
  if (pepper === undefined && !development) {
    throw new ConfigError(["SIGNET_PEPPER must be set in production"]);
  }
  return {
    pepper: createPepper(pepper ?? (await madeKey(home, "pepper", randomBytes)), previousPeppers),
    keyring: createKeyring({ keyEncryption: createKeyEncryption(readKeys, randomBytes), randomBytes }),
  };
}

/**
 * Returns the token of the bootstrap operator.
 *
 * @throws ConfigError in production if it is not set
 */
export async function loadOperatorToken(
  config: Pick<Config, "development" | "home" | "operatorToken">,
  randomBytes: RandomBytes,
): Promise<string> {
  if (config.operatorToken !== undefined) {
    return config.operatorToken;
  }
  if (!config.development) {
    throw new ConfigError(["SIGNET_OPERATOR_TOKEN must be set in production"]);
  }
  return await readOrCreateKey(config.home, OPERATOR_TOKEN_FILE, randomBytes);
}
