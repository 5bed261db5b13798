/** A new database with all migrations, for what `npm run docs` reads from one. */
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { migrateDatabase } from "#database/migrate.ts";
import { startEmbeddedPostgres } from "#processes/embedded/postgres.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import { freePort } from "#test/support/free-port.ts";
import { THROWN_AWAY } from "#test/support/test-database.ts";

/** Calls `work` with the superuser's URL of the database, which ends with the call. */
export async function withMigratedDatabase<Result>(work: (url: string) => Promise<Result>): Promise<Result> {
  const home = await mkdtemp(join(tmpdir(), "signet-docs-"));
  // PostgreSQL runs as another user when this runs as root.
  await chmod(home, 0o755);
  const log = (): undefined => undefined;
  const server = await startEmbeddedPostgres({ home, port: await freePort(), settings: THROWN_AWAY, log });
  try {
    await migrateDatabase({ timers: machineTimers, adminUrl: server.url, nowMs: Date.now() });
    return await work(server.url);
  } finally {
    await server.stop();
    await rm(home, { recursive: true, force: true });
  }
}
