/** Temporal's server on PostgreSQL: schema, pruned visibility indexes, one process with all four services. */
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { setPriority } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { isListening } from "#processes/embedded/ports.ts";
import { startServer, type StopStep } from "#processes/embedded/server-process.ts";
import { freePorts } from "#test/support/free-port.ts";
import type { Janitor } from "./janitor.ts";
import { type Postgres, withClient } from "./postgres.ts";
import { PLUGIN, temporalConfig, type TemporalPorts } from "./temporal-config.ts";
import { type Launched, Restartable } from "./restartable.ts";
import { DYNAMIC_CONFIG, TEMPORAL_NICE } from "./shipped.ts";
import { type TemporalBuild, type TemporalPrograms, temporalPrograms } from "./temporal-programs.ts";
import { untilReady } from "./until-ready.ts";

const run = promisify(execFile);

const DATABASES = { store: "temporal", visibility: "temporal_visibility" } as const;
const STOP: readonly StopStep[] = [
  ["SIGTERM", 15_000],
  ["SIGKILL", 5_000],
];

export interface Temporal {
  readonly address: string;
  /** Undefined for an external server. */
  readonly process: Restartable | undefined;
  /** Names of its databases; empty for an external server. */
  readonly databases: readonly string[];
  /** Replaces its databases with empty ones. The server must be stopped. */
  makeDatabases(): Promise<void>;
  stop(): Promise<void>;
}

export interface TemporalOptions {
  readonly cache: string;
  readonly directory: string;
  readonly postgres: Postgres;
  readonly janitor: Janitor;
  readonly pruneIndexes: boolean;
  readonly log: (line: string) => void;
  readonly build?: TemporalBuild;
  /** Further variables of the server. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Further lines of its dynamic configuration. */
  readonly dynamicConfig?: string;
}

/** An external server, which the bench neither starts nor stops. */
export function foreignTemporal(address: string): Temporal {
  return {
    address,
    process: undefined,
    databases: [],
    makeDatabases: async () =>
      await Promise.reject(new Error("cannot recreate the databases of an external Temporal")),
    stop: async () => undefined,
  };
}

async function createSchema(
  programs: TemporalPrograms,
  adminUrl: string,
  kind: "store" | "visibility",
): Promise<void> {
  const { hostname, port, username, password } = new URL(adminUrl);
  const database = DATABASES[kind];
  const common = ["--ep", hostname, "-p", port, "-u", username, "--pl", PLUGIN, "--db", database];
  const sql = async (...command: string[]): Promise<void> => {
    await run(programs.sql, [...common, ...command], { env: { SQL_PASSWORD: decodeURIComponent(password) } });
  };
  const versions = join(programs.schema, kind === "store" ? "temporal" : "visibility", "versioned");
  await sql("create-database");
  await sql("setup-schema", "-v", "0.0");
  await sql("update-schema", "-d", versions);
}

async function dropDatabases(postgres: Postgres): Promise<void> {
  await withClient(postgres.adminUrl, async (client) => {
    for (const database of Object.values(DATABASES)) {
      await client.query(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`);
    }
  });
}

/** Drops the same visibility indexes as the compose file. */
async function pruneIndexes(postgres: Postgres): Promise<void> {
  const script = await readFile(
    new URL("../../../compose/prune-visibility-indexes.sql", import.meta.url),
    "utf8",
  );
  await withClient(postgres.url(DATABASES.visibility), async (client) => await client.query(script));
}

async function choosePorts(): Promise<TemporalPorts> {
  const [frontend = 0, frontendHttp = 0, history = 0, matching = 0, worker = 0, ...membership] =
    await freePorts(9);
  return {
    frontend,
    frontendHttp,
    history,
    matching,
    worker,
    membership: membership as unknown as TemporalPorts["membership"],
  };
}

async function writeConfig(
  { directory, postgres, dynamicConfig: more = "" }: TemporalOptions,
  ports: TemporalPorts,
): Promise<string> {
  const { hostname, port, username, password } = new URL(postgres.adminUrl);
  const dynamicConfig = join(directory, "temporal-dynamic.yaml");
  await writeFile(dynamicConfig, DYNAMIC_CONFIG + more);
  const config = temporalConfig({
    ports,
    postgres: { host: hostname, port: Number(port), user: username, password: decodeURIComponent(password) },
    databases: DATABASES,
    dynamicConfig,
  });
  const path = join(directory, "temporal.yaml");
  await writeFile(path, config, { mode: 0o600 });
  return path;
}

/** Creates Temporal's databases, starts the server and resolves when its frontend listens. */
export async function startTemporal(options: TemporalOptions): Promise<Temporal> {
  const { cache, directory, postgres, janitor, log } = options;
  const programs = await temporalPrograms(cache, log, options.build);
  const makeDatabases = async (): Promise<void> => {
    await dropDatabases(postgres);
    await createSchema(programs, postgres.adminUrl, "store");
    await createSchema(programs, postgres.adminUrl, "visibility");
    if (options.pruneIndexes) {
      await pruneIndexes(postgres);
    }
  };
  log("creating Temporal's databases");
  await makeDatabases();
  const ports = await choosePorts();
  const config = await writeConfig(options, ports);
  log("starting Temporal's server");
  const process = await Restartable.start(async () => {
    const { environment } = options;
    const server = await launch({ directory, environment, command: programs.server, config }, ports.frontend);
    janitor.mind(server.pid, "SIGTERM");
    return server;
  });
  return {
    address: `127.0.0.1:${ports.frontend}`,
    process,
    databases: Object.values(DATABASES),
    makeDatabases,
    stop: async () => await process.stop(),
  };
}

/** Gives the server its weight: for its threads, and for its session, which Linux may schedule as a group (sched(7)). */
async function weigh(pid: number): Promise<void> {
  setPriority(pid, TEMPORAL_NICE);
  await writeFile(`/proc/${pid}/autogroup`, String(TEMPORAL_NICE)).catch(() => undefined);
}

interface Server {
  readonly directory: string;
  readonly command: string;
  readonly config: string;
  readonly environment: TemporalOptions["environment"];
}

/** Starts the server and resolves when its frontend listens. */
async function launch({ directory, command, config, environment }: Server, port: number): Promise<Launched> {
  const logFile = join(directory, "temporal.log");
  const server = await startServer({
    command,
    args: ["--config-file", config, "--allow-no-auth", "start"],
    cwd: directory,
    env: { HOME: directory, ...environment },
    logFile,
  });
  await weigh(server.pid);
  await untilReady(
    "Temporal's server",
    { server, logFile },
    async () => await isListening("127.0.0.1", port),
  );
  return { pid: server.pid, stop: async () => await server.stop(STOP) };
}
