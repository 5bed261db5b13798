/** Addresses of a home's embedded PostgreSQL and Temporal, for commands that run beside `npm start`. */
import { join } from "node:path";
import type { Config } from "#config/config.ts";
import { readKey } from "#crypto/development-keys.ts";

/** File under SIGNET_HOME with the password of the service's login. */
export const DATABASE_PASSWORD_FILE = "database-password";
/** The service's login in its embedded database, and the database. */
export const EMBEDDED_LOGIN = "signet";
const EMBEDDED_DATABASE = "signet";

/** Whether the embedded parts have been started in this home. */
export async function isStartedHere({ home }: Pick<Config, "home">): Promise<boolean> {
  return (await readKey(join(home, DATABASE_PASSWORD_FILE))) !== undefined;
}

/** Returns the settings, with the embedded addresses if none are set and the embedded parts were started before. */
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
