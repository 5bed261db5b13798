/** The servers below Signet, shared by the whole run. */
import { chmod, mkdtemp } from "node:fs/promises";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig, processEnvironment } from "#config/config.ts";
import { Janitor } from "./janitor.ts";
import { foreignPostgres, type Postgres, startPostgres } from "./postgres.ts";
import { foreignTemporal, startTemporal, type Temporal } from "./temporal.ts";

export interface StackOptions {
  readonly postgres: "system" | "embedded";
  readonly pruneIndexes: boolean;
  readonly log: (line: string) => void;
}

export interface Stack {
  /** Work directory, removed at the end. */
  readonly directory: string;
  readonly janitor: Janitor;
  readonly postgres: Postgres;
  readonly temporal: Temporal;
  readonly namespace: string;
  stop(): Promise<void>;
}

/** Creates a directory on disk. Many systems keep /tmp in memory, where fsync costs nothing. */
async function makeDirectory(): Promise<string> {
  const parent = existsSync("/var/tmp") ? "/var/tmp" : tmpdir();
  const directory = await mkdtemp(join(parent, "signet-bench-"));
  // PostgreSQL's user must be able to traverse it.
  await chmod(directory, 0o711);
  return directory;
}

/**
 * Starts PostgreSQL and Temporal, unless these variables name external servers: SIGNET_DATABASE_URL (a login that may
 * create databases and roles) and TEMPORAL_ADDRESS. CPU and memory of external servers cannot be measured.
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { log } = options;
  const config = loadConfig({ ...processEnvironment(), SIGNET_ENV: "development" });
  const directory = await makeDirectory();
  const janitor = new Janitor();
  janitor.remove(directory);
  const postgres =
    config.databaseUrl === undefined
      ? await startPostgres({ directory, janitor, kind: options.postgres, log })
      : foreignPostgres(config.databaseAdminUrl ?? config.databaseUrl, config.databaseUrl);
  const temporal =
    config.temporalAddress === undefined
      ? await startTemporal({
          cache: config.cache,
          directory,
          postgres,
          janitor,
          pruneIndexes: options.pruneIndexes,
          log,
        })
      : foreignTemporal(config.temporalAddress);
  return {
    directory,
    janitor,
    postgres,
    temporal,
    namespace: config.temporalNamespace,
    stop: async () => {
      await temporal.stop();
      await postgres.stop();
    },
  };
}
