/**
 * A deployment for black-box tests: an api, a worker and two edges as processes of the production build, under mutual
 * TLS and with the default schedules. Tests reach it through HTTP, the command line and Temporal's signals.
 */
import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Environment } from "#config/config.ts";
import type { KeyPair } from "#http/mutual-tls/authority.ts";
import { clientPair, newRoot, serverPair } from "./certificates.ts";
import { eventually } from "./eventually.ts";
import { freePorts } from "./free-port.ts";
import { NO_LIMITS } from "./no-limits.ts";
import { imageEnvironment, type SpawnedProcess, spawnProcess } from "./processes.ts";

/** On a busy machine. */
const START_MS = 110_000;

/** Routes of the data plane behind the edges, by scope. */
const ROUTES = [
  { method: "GET", path: "/v1/inference/{model}", scope: "inference:read", upstream: "data" },
  { method: "POST", path: "/v1/pipelines", scope: "pipeline:write", upstream: "data" },
  { method: ["GET", "POST"], path: "/v1/telemetry/*", scope: "telemetry:export", upstream: "data" },
] as const;

/** Where a deployment is, and what its users hold. Plain data, so that a run can share it between processes. */
export interface Deployment {
  readonly publicUrl: string;
  readonly adminUrl: string;
  readonly operatorToken: string;
  /** Port of the api's mutual TLS listener. */
  readonly apiTlsPort: number;
  /** Ports of the edges, which serve {@link ROUTES} by mutual TLS. */
  readonly edgePorts: readonly number[];
  /** Key with which the edges sign the identity of a request, in base64. */
  readonly identityKey: string;
  /** Root certificate of the servers. */
  readonly ca: string;
  /** Two client certificates of the trusted authority, and one of an authority that nobody trusts. */
  readonly clients: { readonly first: KeyPair; readonly second: KeyPair; readonly rogue: KeyPair };
  readonly database: { readonly name: string; readonly url: string; readonly adminUrl: string };
  readonly temporal: { readonly address: string; readonly namespace: string };
  /** Settings of every process, for instance for the command line. */
  readonly environment: Environment;
  /** Directory of the production build. */
  readonly image: string;
  /** Directory of the processes' logs. */
  readonly logs: string;
}

export interface DeploymentOptions {
  /** Directory of the production build, from `productionImage`. */
  readonly image: string;
  /** Directory for its files. */
  readonly directory: string;
  readonly database: Deployment["database"];
  readonly temporal: Deployment["temporal"];
  /** Number of edges. */
  readonly edges: number;
  /** Runs api, worker and an edge in one process, `signet all`: its port is {@link Deployment.apiTlsPort}. */
  readonly together?: boolean;
}

export interface RunningDeployment extends Deployment {
  /** The worker process, which is also the api if they run together. */
  readonly worker: SpawnedProcess;
  /** Where that process answers `/metrics` and `/readyz`. */
  readonly workerMetrics: string;
  /** Starts another worker process, for instance after the first was killed; if they run together, an api with it. */
  startWorker(): Promise<SpawnedProcess>;
  close(): Promise<void>;
}

/** The data plane: answers 200 with what the edge forwarded. */
async function startDataPlane(): Promise<Server> {
  const server = createServer((request, response) => {
    request.resume().once("end", () => {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ service: "data plane", url: request.url, headers: request.headers }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

interface Program {
  readonly name: string;
  readonly command: string;
  readonly metricsPort: number;
  readonly environment: Environment;
}

/** Starts the processes; `close` on the result ends them. */
export async function startDeployment(options: DeploymentOptions): Promise<RunningDeployment> {
  const { image, directory, database, temporal } = options;
  const logs = join(directory, "logs");
  await mkdir(logs, { recursive: true });
  const [root, rogue, dataPlane] = await Promise.all([
    newRoot("Promises"),
    newRoot("Rogue"),
    startDataPlane(),
  ]);
  const [server, first, second, stranger] = await Promise.all([
    serverPair(root),
    clientPair(root),
    clientPair(root),
    clientPair(rogue),
  ]);
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  const upstream = {
    url: `http://127.0.0.1:${(dataPlane.address() as AddressInfo).port}`,
    identity_key: randomBytes(32).toString("base64"),
  };
  const ports = await freePorts(5 + 2 * options.edges);
  const port = (): number => ports.shift() ?? 0;
  const [publicPort, adminPort, apiTlsPort] = [port(), port(), port()];
  const environment: Environment = {
    ...NO_LIMITS,
    ...imageEnvironment(image),
    SIGNET_ENV: "development",
    SIGNET_HOME: directory,
    SIGNET_PUBLIC_URL: `http://127.0.0.1:${publicPort}`,
    SIGNET_ADMIN_LISTEN: `127.0.0.1:${adminPort}`,
    SIGNET_DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: temporal.address,
    TEMPORAL_NAMESPACE: temporal.namespace,
    SIGNET_KEK: randomBytes(32).toString("base64"),
    SIGNET_PEPPER: randomBytes(32).toString("base64"),
    SIGNET_OPERATOR_TOKEN: randomBytes(32).toString("hex"),
    SIGNET_CHECKPOINT_KEY: randomBytes(32).toString("base64"),
    SIGNET_CHECKPOINT_DIR: join(directory, "checkpoints"),
    SIGNET_MTLS_MODE: "native",
    SIGNET_TLS_KEY_FILE: await file("server.key", server.key),
    SIGNET_TLS_CERT_FILE: await file("server.crt", server.cert),
    SIGNET_CLIENT_CA_FILE: await file("ca.crt", root.cert),
    SIGNET_LOG_LEVEL: "info",
  };
  const routes = await file("routes.json", JSON.stringify({ upstreams: { data: upstream }, routes: ROUTES }));
  const running: SpawnedProcess[] = [];

  async function start({ name, command, metricsPort, environment: own }: Program): Promise<SpawnedProcess> {
    const process = spawnProcess({
      command: ["node", "dist/src/processes/main.js", command],
      cwd: image,
      environment: { ...environment, SIGNET_METRICS_LISTEN: `127.0.0.1:${metricsPort}`, ...own },
      logFile: join(logs, `${name}.log`),
    });
    running.push(process);
    await eventually(
      async () => process.state() !== undefined || (await fetch(`http://127.0.0.1:${metricsPort}/readyz`)).ok,
      `the ${name} to be ready`,
      START_MS,
    );
    const ended = process.state();
    if (ended !== undefined) {
      throw new Error(`the ${name} exited (${ended.code ?? ended.signal}):\n${process.output()}`);
    }
    return process;
  }

  const close = async (): Promise<void> => {
    await Promise.all(running.map(async (process) => await process.stop("SIGKILL")));
    dataPlane.closeAllConnections();
    dataPlane.close();
  };
  const listens: Environment = {
    SIGNET_API_LISTEN: `127.0.0.1:${publicPort}`,
    SIGNET_EDGE_LISTEN: `127.0.0.1:${apiTlsPort}`,
  };
  const command = options.together === true ? "all" : "worker";
  const workerMetricsPort = port();
  let workers = 0;
  const startWorker = async (): Promise<SpawnedProcess> => {
    workers += 1;
    const metricsPort = workers === 1 ? workerMetricsPort : ((await freePorts(1))[0] ?? 0);
    const own = command === "all" ? { ...listens, SIGNET_EDGE_ROUTES: routes } : {};
    return await start({ name: `${command}-${workers}`, command, metricsPort, environment: own });
  };
  const edgePorts = Array.from({ length: options.edges }, port);
  try {
    const api =
      command === "worker" &&
      start({ name: "api", command: "api", metricsPort: port(), environment: listens });
    const edges = edgePorts.map(
      async (edgePort, index) =>
        await start({
          name: `edge-${index + 1}`,
          command: "edge",
          metricsPort: port(),
          environment: { SIGNET_EDGE_LISTEN: `127.0.0.1:${edgePort}`, SIGNET_EDGE_ROUTES: routes },
        }),
    );
    const [worker] = await Promise.all([startWorker(), api, ...edges]);
    return {
      publicUrl: `http://127.0.0.1:${publicPort}`,
      adminUrl: `http://127.0.0.1:${adminPort}`,
      operatorToken: environment["SIGNET_OPERATOR_TOKEN"] ?? "",
      apiTlsPort,
      edgePorts,
      identityKey: upstream.identity_key,
      ca: root.cert,
      clients: { first, second, rogue: stranger },
      database,
      temporal,
      environment,
      image,
      logs,
      worker,
      workerMetrics: `http://127.0.0.1:${workerMetricsPort}`,
      startWorker,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
