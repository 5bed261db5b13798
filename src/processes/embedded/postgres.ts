/** The embedded PostgreSQL: a real server for `npm start` and the tests. */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client, DatabaseError } from "pg";
import { SETTINGS } from "#config/config.ts";
import { unlessAborted } from "#runtime/within.ts";
import { requireFreePort } from "./ports.ts";
import {
  ensureCluster,
  POSTGRES_ENV,
  STOP_POSTGRES,
  stopLeftOverPostgres,
  superuserPassword,
} from "./postgres-cluster.ts";
import { placePostgres, type PostgresPlace } from "./postgres-place.ts";
import { postgresPrograms } from "./postgres-programs.ts";
import { logTail, type ServerProcess, startServer } from "./server-process.ts";
import { startUpError } from "./start-up-error.ts";

const HOST = "127.0.0.1";
/** A start includes recovery after a crash. */
const READY_TIMEOUT_MS = 120_000;
const DATABASE = "signet";

/**
 * The settings of docker-compose.yml, with less memory and disk. Durability is promised, so fsync and synchronous_commit
 * stay on.
 */
const SETTINGS_OF_DEVELOPMENT = {
  listen_addresses: HOST,
  unix_socket_directories: "",
  max_connections: "400",
  shared_buffers: "128MB",
  max_wal_size: "2GB",
  checkpoint_timeout: "15min",
  random_page_cost: "1.1",
  jit: "off",
  TimeZone: "UTC",
  log_timezone: "UTC",
  log_min_messages: "warning",
} as const;

export interface EmbeddedPostgresOptions {
  /** `.signet/`. The caller holds its lock (`lockHome`). */
  readonly home: string;
  readonly port: number;
  /** Prints one line for people about long or unusual steps. */
  readonly log: (line: string) => void;
  /** Additional server settings, by PostgreSQL's names. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Additional environment of the server. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Directories for root's cluster if `home` is unsuitable. */
  readonly stateRoots?: readonly string[];
  /** Ends the wait for the server, and the server. */
  readonly signal?: AbortSignal;
}

export interface EmbeddedPostgres {
  /** The superuser's URL of the database `signet`. */
  readonly url: string;
  readonly pid: number;
  /** The actual data directory. */
  readonly data: string;
  /** Fast shutdown; resolves when the server is gone. */
  stop(): Promise<void>;
}

function isStillStarting(error: unknown): boolean {
  // 57P03 cannot_connect_now: starting up or recovering. Any other failure means that the server does not answer yet.
  return !(error instanceof DatabaseError) || error.code === "57P03";
}

async function untilReady(
  url: string,
  server: ServerProcess,
  { home, signal }: EmbeddedPostgresOptions,
): Promise<Client> {
  const logFile = join(home, "postgres.log");
  const deadline = performance.now() + READY_TIMEOUT_MS;
  for (;;) {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
    // The server may be stopped while the client is connected.
    client.on("error", () => undefined);
    try {
      await client.connect();
      return client;
    } catch (error) {
      await client.end().catch(() => undefined);
      signal?.throwIfAborted();
      const how = server.ended();
      if (how !== undefined || performance.now() > deadline) {
        throw startUpError(
          `the embedded PostgreSQL did not start (${how ?? "no answer"}); ${logFile} ends with:\n${logTail(logFile)}`,
          error,
        );
      }
      if (!isStillStarting(error)) {
        throw startUpError(`the embedded PostgreSQL refuses us: ${String(error)}`, error);
      }
    }
    await delay(20);
  }
}

async function ensureDatabase(client: Client): Promise<void> {
  const { rowCount } = await client.query("SELECT FROM pg_database WHERE datname = $1", [DATABASE]);
  if (rowCount === 0) {
    await client.query(`CREATE DATABASE ${DATABASE}`);
  }
}

async function launch(
  options: EmbeddedPostgresOptions,
  place: PostgresPlace,
  command: string,
): Promise<ServerProcess> {
  const settings = { ...SETTINGS_OF_DEVELOPMENT, ...options.settings, port: String(options.port) };
  return await startServer({
    command,
    args: [
      "-D",
      place.data,
      ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
    ],
    cwd: place.base,
    env: { ...POSTGRES_ENV, ...options.environment },
    runAs: place.runAs,
    logFile: join(options.home, "postgres.log"),
    // Immediate shutdown: a fast one could take longer than a reader of the terminal waits.
    exitSignal: "SIGQUIT",
  });
}

function urlOf(port: number, password: string, database: string): string {
  return `postgres://postgres:${encodeURIComponent(password)}@${HOST}:${port}/${database}`;
}

/**
 * Starts PostgreSQL on the cluster of `home`, which is created if missing. Stops a postmaster left by an earlier run
 * first.
 *
 * @throws SignetError `UNAVAILABLE` with the fix in one line: port taken, programs missing, data unreadable
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { home, port, log } = options;
  const place = await placePostgres(home, log, options.stateRoots);
  const programs = await postgresPrograms(place);
  await stopLeftOverPostgres(place.data, log);
  const setting = SETTINGS.embeddedDatabasePort.variable;
  await requireFreePort({ what: "the embedded PostgreSQL", host: HOST, port, setting });
  const password = await superuserPassword(home, place.data);
  const { signal } = options;
  await ensureCluster({ place, programs, password, durable: options.settings?.["fsync"] !== "off", signal });
  signal?.throwIfAborted();
  const server = await launch(options, place, programs.postgres);
  const prepare = async (): Promise<void> => {
    const client = await untilReady(urlOf(port, password, "postgres"), server, options);
    await ensureDatabase(client);
    await client.end();
  };
  try {
    await unlessAborted(signal, prepare());
  } catch (error) {
    await server.stop(STOP_POSTGRES);
    throw error;
  }
  server.onCrash((how) =>
    log(`the embedded PostgreSQL has ended (${how}); see ${join(home, "postgres.log")}`),
  );
  return {
    url: urlOf(port, password, DATABASE),
    pid: server.pid,
    data: place.data,
    stop: async () => await server.stop(STOP_POSTGRES),
  };
}
