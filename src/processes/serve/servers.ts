/** The embedded servers of `npm start`. */
import { randomBytes } from "node:crypto";
import { rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { type Config, processEnvironment } from "#config/config.ts";
import { readOrCreateKey } from "#crypto/development-keys.ts";
import type { Logger } from "#observability/logger.ts";
import { DATABASE_PASSWORD_FILE, EMBEDDED_LOGIN } from "../embedded/addresses.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../embedded/postgres.ts";
import { resolveTemporalBinary } from "../embedded/temporal-binary.ts";
import { type EmbeddedTemporal, startEmbeddedTemporal } from "../embedded/temporal.ts";
import type { Closers } from "./closers.ts";
import type { StartScreen } from "./screen.ts";

const LOOPBACK = "127.0.0.1";

/** Settings of all processes, with both servers' addresses. */
export type ReadyConfig = Config & { readonly databaseUrl: string; readonly temporalAddress: string };

/** The parts of a start. */
export interface Start {
  readonly config: Config;
  readonly log: Logger;
  readonly closers: Closers;
  readonly screen: StartScreen;
  /** Prints a line with details, with --verbose only. */
  readonly detail: (line: string) => void;
  readonly stopping: AbortSignal;
}

interface Servers {
  /** The settings of all processes. Temporal may not answer yet. */
  readonly ready: ReadyConfig;
  /** Resolves when Temporal answers. */
  readonly temporal: Promise<unknown>;
}

/** Starts the embedded PostgreSQL, if the settings name no other. */
async function openPostgres({ config, screen, stopping }: Start): Promise<EmbeddedPostgres | undefined> {
  if (config.databaseUrl !== undefined) {
    return undefined;
  }
  const { home, embeddedDatabasePort: port } = config;
  const step = screen.step("PostgreSQL");
  const postgres = await startEmbeddedPostgres({ home, port, log: screen.say, signal: stopping });
  step.done(`${LOOPBACK}:${port}, data in ${postgres.data}`);
  return postgres;
}

/** Links the CLI under a fixed path for the documentation. */
async function linkTemporalCli(program: string, home: string): Promise<string> {
  const link = join(home, "temporal");
  await rm(link, { force: true });
  await symlink(program, link);
  return link;
}

/** Starts the embedded Temporal, if the settings name no other. Its program may have to be built first. */
async function openTemporal({ config, screen, stopping }: Start): Promise<EmbeddedTemporal | undefined> {
  if (config.temporalAddress !== undefined) {
    return undefined;
  }
  const { home, cache: cacheDir, embeddedTemporalPort: port, embeddedTemporalUiPort: uiPort } = config;
  const step = screen.step("Temporal");
  const shared = { log: screen.say, signal: stopping };
  const binary = await resolveTemporalBinary({
    ...shared,
    environment: processEnvironment(),
    cacheDir,
    progress: step.update,
  });
  step.update("starting");
  const temporal = await startEmbeddedTemporal({
    ...shared,
    binary: binary.path,
    home,
    port,
    uiPort,
    namespaces: [config.temporalNamespace],
    dbFilename: join(home, "temporal.db"),
  });
  const cli = await linkTemporalCli(binary.path, home);
  step.done(`${temporal.address}, UI http://${LOOPBACK}:${uiPort}, CLI ${cli}`);
  return temporal;
}

/** Returns the settings with the embedded servers' addresses, and Temporal's UI for the portal. */
async function withServers(config: Config, postgres: EmbeddedPostgres | undefined): Promise<ReadyConfig> {
  const { databaseUrl, temporalAddress, temporalUiUrl, embeddedTemporalPort, embeddedTemporalUiPort } =
    config;
  const ready = {
    ...config,
    ...(temporalAddress === undefined
      ? {
          temporalAddress: `${LOOPBACK}:${embeddedTemporalPort}`,
          temporalUiUrl: temporalUiUrl ?? `http://${LOOPBACK}:${embeddedTemporalUiPort}`,
        }
      : { temporalAddress }),
  };
  if (postgres === undefined) {
    return { ...ready, databaseUrl: databaseUrl ?? "" };
  }
  const url = new URL(postgres.url);
  url.username = EMBEDDED_LOGIN;
  url.password = await readOrCreateKey(config.home, DATABASE_PASSWORD_FILE, randomBytes);
  return { ...ready, databaseUrl: url.href, databaseAdminUrl: postgres.url };
}

/**
 * Starts both concurrently, and resolves when PostgreSQL answers. If one fails, the other one's start ends too.
 *
 * @throws the first failure
 */
export async function openServers(start: Start): Promise<Servers> {
  const ended = new AbortController();
  const parts = { ...start, stopping: AbortSignal.any([start.stopping, ended.signal]) };
  const failures: unknown[] = [];
  const opened = async <Server extends { stop(): Promise<void> }>(
    opening: Promise<Server | undefined>,
  ): Promise<Server | undefined> => {
    start.closers.addServer(async () => {
      ended.abort();
      const server = await opening.catch(() => undefined);
      await server?.stop();
    });
    try {
      return await opening;
    } catch (error) {
      failures.push(error);
      ended.abort();
      throw failures[0];
    }
  };
  const temporal = opened(openTemporal(parts));
  // Awaited by the caller, unless PostgreSQL fails.
  temporal.catch(() => undefined);
  const postgres = await opened(openPostgres(parts));
  return { ready: await withServers(start.config, postgres), temporal };
}
