/** A PostgreSQL server for one test file, which it can stop without affecting others. */
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import { migrateDatabase } from "#database/migrate.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "#processes/embedded/postgres.ts";
import { freePort } from "./free-port.ts";
import { interruptOnExit } from "./interrupt-on-exit.ts";
import { SERVICE_LOGIN, type TestDatabase, THROWN_AWAY, withDatabase } from "./test-database.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export interface OwnDatabase extends TestDatabase {
  /** Stops the server and its connections; resolves when it has ended. */
  stop(): Promise<void>;
  /** Starts it again with its data. */
  start(): Promise<void>;
}

/**
 * Starts a server with one migrated, empty database. `drop` ends it and removes its files.
 *
 * @param environment additional variables of the server
 */
export async function startOwnDatabase(
  environment: Readonly<Record<string, string>> = {},
): Promise<OwnDatabase> {
  const home = await mkdtemp(join(inject("runDirectory"), "own-"));
  // PostgreSQL runs as another user when the tests run as root.
  await chmod(home, 0o755);
  const port = await freePort();
  let server: EmbeddedPostgres | undefined;
  const leave = interruptOnExit(() => server?.pid);
  const start = async (): Promise<EmbeddedPostgres> => {
    server = await startEmbeddedPostgres({
      home,
      port,
      settings: THROWN_AWAY,
      environment,
      log: () => undefined,
    });
    return server;
  };
  const stop = async (): Promise<void> => {
    await server?.stop();
    server = undefined;
  };
  const { url: adminUrl } = await start();
  const name = new URL(adminUrl).pathname.slice(1);
  const url = withDatabase(adminUrl, name, SERVICE_LOGIN);
  await migrateDatabase({ timers: machineTimers, adminUrl, serviceUrl: url, nowMs: Date.now() });
  return {
    name,
    url,
    adminUrl,
    stop,
    start: async () => void (await start()),
    drop: async () => {
      leave();
      await stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}
