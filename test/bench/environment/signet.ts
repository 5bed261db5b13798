/** Signet from dist/: `api` and `worker` as separate processes, as in production. */
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as delay } from "node:timers/promises";
import {
  logTail,
  type ServerProcess,
  startServer,
  type StopStep,
} from "#processes/embedded/server-process.ts";
import { freePorts } from "#test/support/free-port.ts";
import { imageMemory } from "#test/support/production-image.ts";
import type { Janitor } from "./janitor.ts";
import { Restartable } from "./restartable.ts";
import { TOGETHER_NODE_OPTIONS } from "./shipped.ts";
import { untilReady } from "./until-ready.ts";

export const DIST = fileURLToPath(new URL("../../../dist/", import.meta.url));

export type Settings = Readonly<Record<string, string>>;

export interface SignetOptions {
  readonly directory: string;
  readonly janitor: Janitor;
  /** Output directory of `npm run build`. */
  readonly dist: string;
  /** The Dockerfile of that build, which bounds its memory (default: this repository's). */
  readonly dockerfile?: string;
  /** Database URLs, and the secrets that survive restarts. */
  readonly base: Settings;
  /** Additional settings of a scenario. */
  readonly settings: Settings;
  /** Directory for the CPU profiles that processes write when they end. */
  readonly profiles: string | undefined;
  readonly shape?: Shape;
}

/** Start options of a process, beside its settings. */
export interface Tuning {
  /** Descriptor limit (`ulimit -n`). */
  readonly descriptors?: number;
  /** Node arguments. */
  readonly node?: readonly string[];
}

/** Number of processes of each kind (default: one) and their start options. */
export interface Shape {
  readonly apis?: number;
  readonly workers?: number;
  /** Runs api and worker as one process, `signet all`. The numbers above do not count then. */
  readonly together?: boolean;
  readonly api?: Tuning;
  readonly worker?: Tuning;
  /** Log directory. */
  readonly logs?: string;
}

export interface Signet {
  readonly apiUrl: string;
  readonly adminUrl: string;
  /** URL of the mutual TLS listener, if the scenario's settings enable it. */
  readonly edgeUrl: string;
  readonly pids: { readonly signet_api: number; readonly signet_worker: number };
  /** The first process of each kind. */
  readonly api: Restartable;
  readonly worker: Restartable;
  readonly apis: readonly Process[];
  readonly workers: readonly Process[];
  /** Metrics URL of the first worker. */
  readonly workerMetricsUrl: string;
  stop(): Promise<void>;
}

/** One of several api or worker processes. */
export interface Process {
  readonly server: Restartable;
  /** URL of its metrics listener. */
  readonly metricsUrl: string;
  /** URL of its public listener (api only). */
  readonly url: string;
  readonly logFile: string;
  /** Resolves when it is ready. */
  untilReady(): Promise<void>;
}

function profileFlags(directory: string | undefined, name: string): string[] {
  return directory === undefined
    ? []
    : ["--cpu-prof", `--cpu-prof-dir=${join(directory, name)}`, "--cpu-prof-interval=500"];
}

/** Returns the service's program. Until 0.3.0, it was not in `processes`. */
function mainOf(dist: string): string {
  const [main = "", former = ""] = [["processes"], []].map((folder) =>
    join(dist, "src", ...folder, "main.js"),
  );
  return existsSync(main) || !existsSync(former) ? main : former;
}

interface Launch {
  readonly command: string;
  /** Distinguishes several processes of one command. */
  readonly name?: string;
  readonly env: Settings;
  readonly tuning?: Tuning | undefined;
}

function logFileOf({ directory, shape }: SignetOptions, { command, name = command }: Launch): string {
  return join(shape?.logs ?? directory, `${name}.log`);
}

async function launch(options: SignetOptions, what: Launch): Promise<ServerProcess> {
  const { command, env, tuning } = what;
  const node = [
    process.execPath,
    ...(tuning?.node ?? []),
    ...profileFlags(options.profiles, command),
    mainOf(options.dist),
    command,
  ];
  const limited =
    tuning?.descriptors === undefined
      ? node
      : ["/bin/sh", "-c", 'ulimit -n "$0" && exec "$@"', String(tuning.descriptors), ...node];
  const [program = "", ...args] = limited;
  const server = await startServer({
    command: program,
    args,
    cwd: options.directory,
    env: { ...(await imageMemory(options.dockerfile)), ...env },
    logFile: logFileOf(options, what),
  });
  options.janitor.mind(server.pid, "SIGTERM");
  return server;
}

/** Runs `signet migrate`, which creates the schema and the Temporal namespace. */
export async function migrate(options: SignetOptions): Promise<void> {
  const what = { command: "migrate", env: { ...options.base, ...options.settings } };
  const server = await launch(options, what);
  const logFile = logFileOf(options, what);
  let how = server.ended();
  while (how === undefined) {
    await delay(50);
    how = server.ended();
  }
  if (how !== "exit code 0") {
    throw new Error(`signet migrate: ${how}; ${logFile} ends with:\n${logTail(logFile)}`);
  }
}

async function isReady(url: string): Promise<boolean> {
  return await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2_000) })
    .then((response) => response.ok)
    .catch(() => false);
}

const STOP: readonly StopStep[] = [
  ["SIGTERM", 20_000],
  ["SIGKILL", 5_000],
];

async function startProcess(
  options: SignetOptions,
  what: Launch,
  ready: () => Promise<boolean>,
): Promise<Omit<Process, "metricsUrl" | "url">> {
  let current: ServerProcess | undefined;
  const server = await Restartable.start(async () => {
    const launched = await launch(options, what);
    current = launched;
    return { pid: launched.pid, stop: async () => await launched.stop(STOP) };
  });
  const logFile = logFileOf(options, what);
  const until = async (): Promise<void> =>
    await untilReady(`signet ${what.name ?? what.command}`, { server: current, logFile }, ready);
  try {
    await until();
  } catch (error) {
    await server.stop();
    throw error;
  }
  return { server, logFile, untilReady: until };
}

/** A process beside the api and the worker. */
export interface Beside {
  readonly port: number;
  readonly server: Restartable;
  readonly metricsUrl: string;
  /** Resolves when it is ready, also after it was started again. */
  untilReady(): Promise<void>;
}

/** Starts an edge or a hub in its own directory, with its own log. Resolves when it is ready: an edge admits tokens. */
export async function startBeside(
  options: SignetOptions,
  command: "edge" | "hub",
  name: string,
): Promise<Beside> {
  const [port, metricsPort] = await freePorts(2);
  const own = { ...options, directory: join(options.directory, name) };
  await mkdir(own.directory, { recursive: true });
  const env = {
    ...options.base,
    ...options.settings,
    [command === "edge" ? "SIGNET_EDGE_LISTEN" : "SIGNET_HUB_LISTEN"]: `127.0.0.1:${port}`,
    SIGNET_METRICS_LISTEN: `127.0.0.1:${metricsPort}`,
  };
  const metricsUrl = `http://127.0.0.1:${metricsPort}`;
  const { server, untilReady: until } = await startProcess(
    own,
    { command, env },
    async () => await isReady(metricsUrl),
  );
  return { port: port ?? 0, server, metricsUrl, untilReady: until };
}

/** Starts the n-th process of a kind on its own ports. */
async function startNumbered(
  options: SignetOptions,
  command: "api" | "worker" | "all",
  { number, publicUrl }: { readonly number: number; readonly publicUrl: string | undefined },
): Promise<Process & { readonly adminUrl: string; readonly edgeUrl: string }> {
  const [apiPort, adminPort, edgePort, metricsPort] = await freePorts(4);
  const env = {
    ...options.base,
    // A shared issuer, so that every process accepts the others' tokens.
    ...(publicUrl === undefined ? {} : { SIGNET_PUBLIC_URL: publicUrl }),
    ...options.settings,
    SIGNET_API_LISTEN: `127.0.0.1:${apiPort}`,
    SIGNET_ADMIN_LISTEN: `127.0.0.1:${adminPort}`,
    SIGNET_EDGE_LISTEN: `127.0.0.1:${edgePort}`,
    SIGNET_METRICS_LISTEN: `127.0.0.1:${metricsPort}`,
    ...(command === "all" ? { NODE_OPTIONS: TOGETHER_NODE_OPTIONS } : {}),
  };
  const url = `http://127.0.0.1:${apiPort}`;
  const metricsUrl = `http://127.0.0.1:${metricsPort}`;
  const name = number === 1 ? command : `${command}-${number}`;
  const started = await startProcess(
    options,
    { command, name, env, tuning: options.shape?.[command === "all" ? "api" : command] },
    async () => await isReady(command === "api" ? url : metricsUrl),
  );
  return {
    ...started,
    url,
    metricsUrl,
    adminUrl: `http://127.0.0.1:${adminPort}/admin/v1`,
    edgeUrl: `https://127.0.0.1:${edgePort}`,
  };
}

type Numbered = Awaited<ReturnType<typeof startNumbered>>;
type NonEmpty = [Numbered, ...Numbered[]];

/** Starts all processes and resolves when they are ready. */
export async function startSignet(options: SignetOptions): Promise<Signet> {
  const { apis: apiCount = 1, workers: workerCount = 1 } = options.shape ?? {};
  const started: Numbered[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(started.map(async ({ server }) => await server.stop()));
  };
  const startAll = async (command: "api" | "worker" | "all", count: number): Promise<NonEmpty> => {
    const all: Numbered[] = [];
    for (let number = 1; number <= count; number += 1) {
      const publicUrl = options.settings["SIGNET_PUBLIC_URL"] ?? started[0]?.url;
      const one = await startNumbered(options, command, { number, publicUrl });
      started.push(one);
      all.push(one);
    }
    return all as NonEmpty;
  };
  try {
    const together = options.shape?.together === true;
    const apis = together ? await startAll("all", 1) : await startAll("api", apiCount);
    const workers = together ? apis : await startAll("worker", workerCount);
    const [{ server: api, url: apiUrl, adminUrl, edgeUrl }] = apis;
    const [{ server: worker, metricsUrl: workerMetricsUrl }] = workers;
    return {
      apiUrl,
      adminUrl,
      edgeUrl,
      get pids() {
        return { signet_api: api.pid, signet_worker: worker.pid };
      },
      api,
      worker,
      apis,
      workers,
      workerMetricsUrl,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
