/** `signet migrate`: brings the database and the Temporal namespace to what this build needs, once, before the other processes start. */
import { Connection } from "@temporalio/client";
import { type Config, ConfigError } from "../config.ts";
import { migrateDatabase } from "../database/migrate.ts";
import { systemClock } from "../domain/clock.ts";
import type { Logger } from "../observability/logger.ts";
import { ensureNamespace } from "../temporal/namespace.ts";

async function prepareNamespace(address: string, namespace: string): Promise<void> {
  const connection = await Connection.connect({ address });
  try {
    await ensureNamespace(connection, { namespace });
  } finally {
    await connection.close();
  }
}

/** Migrates and returns how many migrations were applied. */
export async function runMigrate(config: Config, log: Logger): Promise<number> {
  const adminUrl = config.databaseAdminUrl ?? config.databaseUrl;
  if (adminUrl === undefined) {
    throw new ConfigError(["SIGNET_DATABASE_URL must be set"]);
  }
  const applied = await migrateDatabase({
    adminUrl,
    ...(config.databaseUrl === undefined ? {} : { serviceUrl: config.databaseUrl }),
    ...(config.edgeDatabaseUrl === undefined ? {} : { edgeUrl: config.edgeDatabaseUrl }),
    nowMs: systemClock.now(),
    log,
  });
  log.info({ applied }, "schema is up to date");
  if (config.temporalAddress !== undefined) {
    await prepareNamespace(config.temporalAddress, config.temporalNamespace);
    log.info({ namespace: config.temporalNamespace }, "Temporal namespace is up to date");
  }
  return applied;
}
