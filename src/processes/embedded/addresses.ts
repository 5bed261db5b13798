/** Where the embedded PostgreSQL and Temporal of a home are, for commands that run beside `npm start`. */
import { join } from "node:path";
import type { Config } from "../../config/config.ts";
import { readKey } from "../../crypto/development-keys.ts";

/** File under SIGNET_HOME with the password of the service's login. */
export const DATABASE_PASSWORD_FILE = "database-password";
/** The login that the service takes in its embedded database, and the database. */
export const EMBEDDED_LOGIN = "signet";
const EMBEDDED_DATABASE = "signet";

/** Whether the embedded parts have been started in this home. */
export async function isStartedHere({ home }: Pick<Config, "home">): Promise<boolean> {
  return (await readKey(join(home, DATABASE_PASSWORD_FILE))) !== undefined;
}

/** The settings, with the addresses of the embedded parts where none are set and they have been started once. */
export async function withEmbeddedAddresses(config: Config): Promise<Config> {
  if (!config.development) {
    return config;
  }
  const password = await readKey(join(config.home, DATABASE_PASSWORD_FILE));
  const databaseUrl =
    config.databaseUrl ??
    (password === undefined
      ? undefined
      : `postgres://${EMBEDDED_LOGIN}:${password}@127.0.0.1:${config.embeddedDatabasePort}/${EMBEDDED_DATABASE}`);
  return {
    ...config,
    databaseUrl,
    temporalAddress: config.temporalAddress ?? `127.0.0.1:${config.embeddedTemporalPort}`,
  };
}
