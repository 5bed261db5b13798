/** Signet itself, from dist/: `api` and `worker` as processes of their own, as in production. */
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as delay } from "node:timers/promises";
import {
  logTail,
  type ServerProcess,
  startServer,
  type StopStep,
} from "../../../src/embedded/server-process.ts";
import { freePorts } from "../../support/free-port.ts";
import type { Janitor } from "./janitor.ts";
import { Restartable } from "./restartable.ts";
import { untilReady } from "./until-ready.ts";

export const DIST = fileURLToPath(new URL("../../../dist/", import.meta.url));

export type Settings = Readonly<Record<string, string>>;

export interface SignetOptions {
  readonly directory: string;
  readonly janitor: Janitor;
  /** What `npm run build` made. */
  readonly dist: string;
  /** Where the databases are, and the secrets that stay the same over restarts. */
  readonly base: Settings;
  /** What a scenario sets besides. */
  readonly settings: Settings;
  /** Where each process leaves a CPU profile when it ends. */
  readonly profiles: string | undefined;
}

export interface Signet {
  readonly apiUrl: string;
  readonly adminUrl: string;
  /** Where mutual TLS is, if a scenario's settings switch it on. */
  readonly edgeUrl: string;
  readonly pids: { readonly signet_api: number; readonly signet_worker: number };
  readonly api: Restartable;
  readonly worker: Restartable;
  /** Of the worker's metrics listener. */
  readonly workerMetricsUrl: string;
  stop(): Promise<void>;
}

/** What the image starts Node with. @throws when the Dockerfile does not say */
async function nodeOptions(): Promise<string> {
  const dockerfile = await readFile(join(DIST, "..", "Dockerfile"), "utf8");
  const options = /\bNODE_OPTIONS="([^"]+)"/.exec(dockerfile)?.[1];
  if (options === undefined) {
    throw new Error("the Dockerfile sets no NODE_OPTIONS");
  }
  return options;
}

function profileFlags(directory: string | undefined, name: string): string[] {
  return directory === undefined
    ? []
    : ["--cpu-prof", `--cpu-prof-dir=${join(directory, name)}`, "--cpu-prof-interval=500"];
}

async function launch(options: SignetOptions, command: string, env: Settings): Promise<ServerProcess> {
  const server = await startServer({
    command: process.execPath,
    args: [...profileFlags(options.profiles, command), join(options.dist, "src", "main.js"), command],
    cwd: options.directory,
    env: { NODE_OPTIONS: await nodeOptions(), ...env },
    logFile: join(options.directory, `${command}.log`),
  });
  options.janitor.mind(server.pid, "SIGTERM");
  return server;
}

/** Runs `signet migrate`: schema and Temporal namespace. */
export async function migrate(options: SignetOptions): Promise<void> {
  const server = await launch(options, "migrate", { ...options.base, ...options.settings });
  const logFile = join(options.directory, "migrate.log");
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
  command: string,
  env: Settings,
  ready: () => Promise<boolean>,
): Promise<Restartable> {
  let server: ServerProcess | undefined;
  const started = await Restartable.start(async () => {
    const launched = await launch(options, command, env);
    server = launched;
    return { pid: launched.pid, stop: async () => await launched.stop(STOP) };
  });
  try {
    await untilReady(
      `signet ${command}`,
      { server, logFile: join(options.directory, `${command}.log`) },
      ready,
    );
  } catch (error) {
    await started.stop();
    throw error;
  }
  return started;
}

/** Starts an edge of its own directory, so that several have a log each; resolves when it admits tokens. */
export async function startEdge(
  options: SignetOptions,
  name: string,
): Promise<{ readonly port: number; readonly server: Restartable }> {
  const [port, metricsPort] = await freePorts(2);
  const own = { ...options, directory: join(options.directory, name) };
  await mkdir(own.directory, { recursive: true });
  const env = {
    ...options.base,
    ...options.settings,
    SIGNET_EDGE_LISTEN: `127.0.0.1:${port}`,
    SIGNET_METRICS_LISTEN: `127.0.0.1:${metricsPort}`,
  };
  const ready = async (): Promise<boolean> => await isReady(`http://127.0.0.1:${metricsPort}`);
  return { port: port ?? 0, server: await startProcess(own, "edge", env, ready) };
}

/** Starts both processes and resolves when they do their work. */
export async function startSignet(options: SignetOptions): Promise<Signet> {
  const [apiPort, adminPort, edgePort, apiMetrics, workerMetrics] = await freePorts(5);
  const env = {
    ...options.base,
    ...options.settings,
    SIGNET_API_LISTEN: `127.0.0.1:${apiPort}`,
    SIGNET_ADMIN_LISTEN: `127.0.0.1:${adminPort}`,
    SIGNET_EDGE_LISTEN: `127.0.0.1:${edgePort}`,
  };
  const apiUrl = `http://127.0.0.1:${apiPort}`;
  const workerMetricsUrl = `http://127.0.0.1:${workerMetrics}`;
  const api = await startProcess(
    options,
    "api",
    { ...env, SIGNET_METRICS_LISTEN: `127.0.0.1:${apiMetrics}` },
    async () => await isReady(apiUrl),
  );
  const worker = await startProcess(
    options,
    "worker",
    { ...env, SIGNET_METRICS_LISTEN: `127.0.0.1:${workerMetrics}` },
    async () => await isReady(workerMetricsUrl),
  ).catch(async (error: unknown) => {
    await api.stop();
    throw error;
  });
  return {
    apiUrl,
    adminUrl: `http://127.0.0.1:${adminPort}/admin/v1`,
    edgeUrl: `https://127.0.0.1:${edgePort}`,
    get pids() {
      return { signet_api: api.pid, signet_worker: worker.pid };
    },
    api,
    worker,
    workerMetricsUrl,
    stop: async () => {
      await Promise.all([api.stop(), worker.stop()]);
    },
  };
}
