/** `signet migrate`: brings the database to the schema of this build, once, before the other processes start. */
import { type Config, ConfigError } from "../config.ts";
import { migrateDatabase } from "../database/migrate.ts";
import { systemClock } from "../domain/clock.ts";
import type { Logger } from "../observability/logger.ts";

/** Migrates and returns how many migrations were applied. */
export async function runMigrate(config: Config, log: Logger): Promise<number> {
  const adminUrl = config.databaseAdminUrl ?? config.databaseUrl;
  if (adminUrl === undefined) {
    throw new ConfigError(["SIGNET_DATABASE_URL must be set"]);
  }
  const applied = await migrateDatabase({
    adminUrl,
    ...(config.databaseUrl === undefined ? {} : { serviceUrl: config.databaseUrl }),
    nowMs: systemClock.now(),
    log,
  });
  log.info({ applied }, "schema is up to date");
  return applied;
}
