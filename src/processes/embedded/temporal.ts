/** The embedded Temporal: the CLI's development server as a child process. */
import { existsSync } from "node:fs";
import { chmod, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Connection } from "@temporalio/client";
import { TypedSearchAttributes } from "@temporalio/common";
import { SETTINGS } from "#config/config.ts";
import { unlessAborted } from "#runtime/within.ts";
import { proxyArgs } from "#temporal/client.ts";
import { ensureNamespace, SEARCH_ATTRIBUTE_TYPES } from "#temporal/namespace.ts";
import { isListening, requireFreePort } from "./ports.ts";
import { processIdentity } from "./process-identity.ts";
import { logTail, type ServerProcess, startServer, type StopStep, stopProcess } from "./server-process.ts";
import { startUpError } from "./start-up-error.ts";
import { serverVersion } from "./temporal-binary.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const HOST = "127.0.0.1";
const READY_TIMEOUT_MS = 60_000;
/** Waiting tasks are handed out by tenant in turn, as in docker-compose.yml. Workflows can be paused from server 1.30 on. */
const DYNAMIC_CONFIG = { "matching.enableFairness": "true", "frontend.WorkflowPauseEnabled": "true" };
/** A killed server loses nothing: SQLite recovers at the next start. */
const STOP_TEMPORAL: readonly StopStep[] = [
  ["SIGINT", 2_500],
  ["SIGKILL", 1_000],
];

export interface EmbeddedTemporalOptions {
  /** The `temporal` program: see `resolveTemporalBinary`. */
  readonly binary: string;
  /** `.signet/`: log and pid file go here. The caller holds its lock (`lockHome`). */
  readonly home: string;
  readonly port: number;
  /** `null`: no UI. */
  readonly uiPort: number | null;
  /** Created at start, with retention and search attributes. */
  readonly namespaces: readonly string[];
  /** The SQLite file; `null` keeps everything in memory. */
  readonly dbFilename: string | null;
  /** Temporal dynamic configuration, JSON values by key. */
  readonly dynamicConfig?: Readonly<Record<string, string>>;
  /** Prints one line for people about unusual steps. */
  readonly log: (line: string) => void;
  /** Ends the wait for the server, and the server. */
  readonly signal?: AbortSignal;
}

export interface EmbeddedTemporal {
  /** `host:port` of the frontend. */
  readonly address: string;
  readonly pid: number;
  /** Shuts down gracefully; resolves when the server is gone. */
  stop(): Promise<void>;
}

function pidFile(home: string): string {
  return join(home, "temporal.pid");
}

/**
 * Stops the server of a run whose process has died. The record identifies the process, not only its pid.
 */
export async function stopLeftOverTemporal(home: string, log: (line: string) => void): Promise<void> {
  const recorded = await readFile(pidFile(home), "utf8").catch(() => undefined);
  if (recorded === undefined) {
    return;
  }
  const pid = Number.parseInt(recorded, 10);
  if (processIdentity(pid) === recorded) {
    log(`stopping the embedded Temporal (pid ${pid}) left by an earlier run`);
    await stopProcess(pid, STOP_TEMPORAL);
  }
  await rm(pidFile(home), { force: true });
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") {
    throw error;
  }
}

/** An earlier version left its database world-readable; SQLite's other files share its name as prefix. */
async function closeToOthers(dbFilename: string): Promise<void> {
  for (const path of [dbFilename, `${dbFilename}-wal`, `${dbFilename}-shm`]) {
    await chmod(path, 0o600).catch(ignoreMissing);
  }
}

/**
 * The development server does not migrate its database, and cannot run schedules on one of an older schema. So a database
 * of another minor version is put aside; PostgreSQL's rows are carried again.
 */
async function putOtherVersionAside({
  binary,
  home,
  dbFilename,
  log,
}: EmbeddedTemporalOptions): Promise<void> {
  if (dbFilename === null) {
    return;
  }
  const server = (await serverVersion(binary)).join(".");
  const marker = join(home, "temporal.server");
  const recorded = await readFile(marker, "utf8").catch(() => undefined);
  if (recorded === server) {
    return;
  }
  if (existsSync(dbFilename)) {
    const aside = `${dbFilename}.${recorded ?? "old"}`;
    // The log first: without its database, SQLite ignores it.
    for (const suffix of ["-shm", "-wal", ""]) {
      await rename(`${dbFilename}${suffix}`, `${aside}${suffix}`).catch(ignoreMissing);
    }
    log(
      `Temporal's server is ${server} now, so its old database was put aside as ${aside}; no delivery is lost`,
    );
  }
  await writeFile(marker, server, { mode: 0o600 });
}

/** SQLite takes the name as a URI, whose path a # or ? would end. The server runs in the home. */
function uriPath(home: string, dbFilename: string): string {
  return /[#?%]/.test(dbFilename) ? relative(home, dbFilename) : dbFilename;
}

function serverArguments(options: EmbeddedTemporalOptions): string[] {
  const { home, port, uiPort, namespaces, dbFilename } = options;
  const dynamicConfig = { ...DYNAMIC_CONFIG, ...options.dynamicConfig };
  return [
    "server",
    "start-dev",
    `--ip=${HOST}`,
    `--port=${port}`,
    "--log-level=warn",
    ...(uiPort === null ? ["--headless"] : ["--ui-port", String(uiPort)]),
    ...(dbFilename === null ? [] : ["--db-filename", uriPath(home, dbFilename)]),
    ...namespaces.flatMap((name) => ["--namespace", name]),
    ...Object.entries(SEARCH_ATTRIBUTE_TYPES).flatMap(([name, type]) => [
      "--search-attribute",
      `${name}=${TypedSearchAttributes.toMetadataType(type)}`,
    ]),
    ...Object.entries(dynamicConfig).flatMap(([key, value]) => ["--dynamic-config-value", `${key}=${value}`]),
  ];
}

async function connect(
  { port, signal }: EmbeddedTemporalOptions,
  server: ServerProcess,
  logFile: string,
): Promise<Connection> {
  const deadline = performance.now() + READY_TIMEOUT_MS;
  // gRPC waits a second after a refused connection, so wait until the port is open.
  while (!(await isListening(HOST, port))) {
    signal?.throwIfAborted();
    const how = server.ended();
    if (how !== undefined || performance.now() > deadline) {
      throw startUpError(
        `the embedded Temporal did not start (${how ?? "no answer"}); ${logFile} ends with:\n${logTail(logFile)}`,
      );
    }
    await delay(20);
  }
  const address = `${HOST}:${port}`;
  return await Connection.connect({
    address,
    connectTimeout: READY_TIMEOUT_MS,
    channelArgs: proxyArgs(address),
  });
}

async function prepareNamespaces(
  connection: Connection,
  { namespaces, port }: EmbeddedTemporalOptions,
): Promise<void> {
  const address = `${HOST}:${port}`;
  try {
    await Promise.all(
      namespaces.map(
        async (namespace) => await ensureNamespace(connection, { namespace, address, timers: machineTimers }),
      ),
    );
  } finally {
    await connection.close();
  }
}

/**
 * Starts the development server; stops one left by an earlier run first.
 *
 * @throws SignetError `UNAVAILABLE` with the fix in one line
 */
export async function startEmbeddedTemporal(options: EmbeddedTemporalOptions): Promise<EmbeddedTemporal> {
  const { home, port, uiPort, dbFilename, log } = options;
  const logFile = join(home, "temporal.log");
  await stopLeftOverTemporal(home, log);
  const what = "the embedded Temporal";
  const setting = SETTINGS.embeddedTemporalPort.variable;
  await requireFreePort({ what, host: HOST, port, setting });
  if (uiPort !== null) {
    const uiSetting = SETTINGS.embeddedTemporalUiPort.variable;
    await requireFreePort({ what: `${what}'s UI`, host: HOST, port: uiPort, setting: uiSetting });
  }
  await putOtherVersionAside(options);
  if (dbFilename !== null) {
    await closeToOthers(dbFilename);
  }
  const server = await startServer({
    command: options.binary,
    args: serverArguments(options),
    cwd: home,
    // A private HOME, so that the user's Temporal CLI configuration is not read.
    env: { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: home },
    logFile,
    exitSignal: "SIGKILL",
  });
  await writeFile(pidFile(home), processIdentity(server.pid) ?? "", { mode: 0o600 });
  const stop = async (): Promise<void> => {
    await server.stop(STOP_TEMPORAL);
    await rm(pidFile(home), { force: true });
  };
  const prepare = async (): Promise<void> =>
    await prepareNamespaces(await connect(options, server, logFile), options);
  try {
    await unlessAborted(options.signal, prepare());
  } catch (error) {
    await stop();
    throw error;
  }
  server.onCrash((how) => log(`the embedded Temporal has ended (${how}); see ${logFile}`));
  return { address: `${HOST}:${port}`, pid: server.pid, stop };
}
