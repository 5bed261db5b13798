/** `signet migrate`: updates the database and the Temporal namespace for this build, once, before the other processes start. */
import { isGrpcServiceError } from "@temporalio/client";
import { cellOfLogin, cellsOf } from "#config/cell-settings.ts";
import { isAway } from "#domain/regions.ts";
import { type Config, ConfigError } from "#config/config.ts";
import { named } from "#config/database-settings.ts";
import { requireReachable } from "#database/access.ts";
import { migrateDatabase } from "#database/migrate.ts";
import { OF_MIGRATION, unusable } from "#database/unreachable.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import type { Logger } from "#observability/logger.ts";
import { type TemporalOptions, temporalOptions } from "#temporal/client.ts";
import { ensureNamespace } from "#temporal/namespace.ts";
import { connectTemporal, whyUnreachable } from "#temporal/unreachable.ts";

async function prepareNamespace(options: TemporalOptions): Promise<void> {
  const connection = await connectTemporal(options);
  try {
    await ensureNamespace(connection, { ...options, timers: machineTimers });
  } catch (error) {
    throw isGrpcServiceError(error) ? await whyUnreachable(options, error) : error;
  } finally {
    await connection.close();
  }
}

/** Migrates. Returns the number of applied migrations. */
export async function runMigrate(config: Config, log: Logger): Promise<number> {
  const adminUrl = config.databaseAdminUrl ?? config.databaseDirectUrl ?? config.databaseUrl;
  if (adminUrl === undefined) {
    throw new ConfigError(["SIGNET_DATABASE_URL must be set"]);
  }
  const place = named(config, adminUrl);
  await requireReachable(place);
  const applied = await migrateDatabase({
    timers: machineTimers,
    adminUrl,
    ...(config.databaseUrl === undefined ? {} : { serviceUrl: config.databaseUrl }),
    ...(config.edgeDatabaseUrl === undefined ? {} : { edgeUrl: config.edgeDatabaseUrl }),
    ...(config.leaseKeys === undefined ? {} : { leaseKeys: config.leaseKeys }),
    // In another cell, this is the login at the home cell's database.
    ...(config.homeDatabaseUrl === undefined || isAway(cellsOf(config))
      ? {}
      : { cell: { url: config.homeDatabaseUrl, name: cellOfLogin(config) } }),
    nowMs: systemClock.now(),
    log,
  }).catch((error: unknown) => {
    throw unusable(error, place, OF_MIGRATION);
  });
  log.info({ applied }, "schema is up to date");
  const { temporalAddress } = config;
  if (temporalAddress !== undefined) {
    await prepareNamespace(temporalOptions({ ...config, temporalAddress }));
    log.info({ namespace: config.temporalNamespace }, "Temporal namespace is up to date");
  }
  return applied;
}
