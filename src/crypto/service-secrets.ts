/** Service secrets: those of a process, from its settings. Development generates missing ones once and keeps them. */
import { join } from "node:path";
import { type Config, ConfigError } from "#config/config.ts";
import type { RandomBytes } from "#domain/ids.ts";
import { failureOf } from "#runtime/thrown.ts";
import { OPERATOR_TOKEN_FILE, readKey, readOrCreateKey } from "./development-keys.ts";
import { envelopeAad } from "./envelope.ts";
import {
  createKeyEncryption,
  fixedKeys,
  type KeyEncryption,
  keysOfFile,
  type ReadKeys,
} from "./key-encryption.ts";
import { createServiceEncryption, KeyServiceError } from "./key-service.ts";
import { loadKeyServices } from "./key-service-clients.ts";
import { Keyring } from "./keyring.ts";
import { Pepper } from "./pepper.ts";
import type { Timers } from "#domain/clock.ts";

const KEK_FILE = "kek";
const KEY_BYTES = 32;

export interface ServiceSecrets {
  readonly pepper: Pepper;
  readonly keyring: Keyring;
}

type SecretSettings = Pick<
  Config,
  | "development"
  | "home"
  | "pepper"
  | "previousPeppers"
  | "kek"
  | "previousKeks"
  | "kekFile"
  | "kmsKek"
  | "previousKmsKeks"
>;

/** Returns the keys that this process may read; undefined if a key management service holds all of them. */
async function keySource(config: SecretSettings, randomBytes: RandomBytes): Promise<ReadKeys | undefined> {
  const { kek, previousKeks, kekFile, kmsKek, development, home } = config;
  if (kekFile !== undefined) {
    return keysOfFile(kekFile);
  }
  if (kek !== undefined) {
    return fixedKeys([kek, ...previousKeks]);
  }
  if (kmsKek !== undefined) {
    // One that development has generated earlier still decrypts.
    const made = development ? await readKey(join(home, KEK_FILE)) : undefined;
    const keys = [...(made === undefined ? [] : [Buffer.from(made, "base64url")]), ...previousKeks];
    return keys.length === 0 ? undefined : fixedKeys(keys);
  }
  if (!development) {
    throw new ConfigError(["SIGNET_KEK, SIGNET_KEK_FILE or SIGNET_KEK_KMS must be set in production"]);
  }
  return fixedKeys([await madeKey(home, KEK_FILE, randomBytes), ...previousKeks]);
}

/** Where the test of a key management service's key would be stored. */
const TEST_AAD = envelopeAad("start", "", "test", 1);

/** Encrypts and decrypts with the key, so that a process that may not use it does not start. */
async function testKey(keyEncryption: KeyEncryption, randomBytes: RandomBytes): Promise<void> {
  const bytes = Buffer.from(randomBytes(KEY_BYTES));
  const opened = await keyEncryption.unwrap(TEST_AAD, await keyEncryption.wrap(TEST_AAD, bytes));
  if (!opened.equals(bytes)) {
    throw new Error("the key management service decrypted something else than it had encrypted");
  }
}

async function openKeyEncryption(
  config: SecretSettings,
  randomBytes: RandomBytes,
  timers: Timers,
): Promise<KeyEncryption> {
  const readKeys = await keySource(config, randomBytes);
  // Report a faulty key file at start, not at the first delivery.
  await readKeys?.();
  const local = readKeys && createKeyEncryption(readKeys, randomBytes);
  const { kmsKek: current, previousKmsKeks: previous } = config;
  const keys = [...previous, ...(current === undefined ? [] : [current])];
  if (local !== undefined && keys.length === 0) {
    return local;
  }
  try {
    const serviceOf = await loadKeyServices(keys);
    const opened = createServiceEncryption({ current, previous, serviceOf, local, timers });
    if (current !== undefined) {
      await testKey(opened, randomBytes);
    }
    return opened;
  } catch (error) {
    const variable = current === undefined ? "SIGNET_KEK_KMS_PREVIOUS" : "SIGNET_KEK_KMS";
    const reason = error instanceof KeyServiceError ? error.cause : error;
    throw new ConfigError([`${variable} cannot be used: ${failureOf(reason)}`]);
  }
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
  timers: Timers,
): Promise<ServiceSecrets> {
  const { pepper, previousPeppers, development, home } = config;
  const keyEncryption = await openKeyEncryption(config, randomBytes, timers);
  if (pepper === undefined && !development) {
    throw new ConfigError(["SIGNET_PEPPER must be set in production"]);
  }
  return {
    pepper: new Pepper(pepper ?? (await madeKey(home, "pepper", randomBytes)), previousPeppers),
    keyring: new Keyring({ keyEncryption, randomBytes, monotonicMs: timers.monotonic }),
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
