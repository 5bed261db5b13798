/** The secrets a process starts with: from its settings; in development, what they leave open is made once and kept. */
import { type Config, ConfigError } from "../config.ts";
import type { RandomBytes } from "../domain/ids.ts";
import { readOrCreateKey } from "./development-keys.ts";

/** Name of the operator token's file under SIGNET_HOME. */
export const OPERATOR_TOKEN_FILE = "operator-token";

export interface ServiceSecrets {
  readonly pepper: Buffer;
  readonly kek: Buffer;
}

/**
 * Pepper and key-encryption key.
 *
 * @throws ConfigError in production when one is not set
 */
export async function loadServiceSecrets(
  config: Pick<Config, "development" | "home" | "pepper" | "kek">,
  randomBytes: RandomBytes,
): Promise<ServiceSecrets> {
  const { pepper, kek, development, home } = config;
  if (development) {
    const made = async (name: string): Promise<Buffer> =>
      Buffer.from(await readOrCreateKey(home, name, randomBytes), "base64url");
    return { pepper: pepper ?? (await made("pepper")), kek: kek ?? (await made("kek")) };
  }
  if (pepper === undefined || kek === undefined) {
    throw new ConfigError(["SIGNET_PEPPER and SIGNET_KEK must be set in production"]);
  }
  return { pepper, kek };
}

/**
 * The token of the operators' API.
 *
 * @throws ConfigError in production when it is not set
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
