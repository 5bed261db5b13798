/** A process's own listener for its operators: Prometheus metrics, and whether it runs and is ready. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { collectDefaultMetrics, register } from "prom-client";
import { formatListen, type ListenAddress } from "../config.ts";
import type { Logger } from "./logger.ts";
import { failedChecks, type ReadinessCheck } from "./readiness.ts";

export interface MetricsServerOptions {
  /** A port of 0 is any free one. */
  readonly listen: ListenAddress;
  /** What must work now; it changes while the process starts. */
  readonly readiness: () => readonly ReadinessCheck[];
  readonly log: Logger;
}

export interface MetricsServer {
  readonly address: ListenAddress;
  close(): Promise<void>;
}

/** Its callers are a scraper and a health check: small requests, sent at once, over few connections. */
const LIMITS = {
  maxHeaderSize: 8_192,
  headersTimeout: 5_000,
  requestTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
} as const;
const MAX_CONNECTIONS = 64;

type Answer = readonly [status: number, contentType: string, body: string];

function json(status: number, body: unknown): Answer {
  return [status, "application/json", JSON.stringify(body)];
}

async function readiness({ readiness: checks, log }: MetricsServerOptions): Promise<Answer> {
  const failures = await failedChecks(checks());
  if (failures.length === 0) {
    return json(200, { status: "ready" });
  }
  const failing = failures.map(({ name }) => name);
  log.warn({ err: new AggregateError(failures.map(({ error }) => error)), failing }, "not ready");
  return json(503, { status: "not ready", failing });
}

/** What Node and the operating system tell of a process; a second listener, in tests, finds it collected already. */
function collectProcessMetrics(): void {
  if (register.getSingleMetric("process_start_time_seconds") === undefined) {
    collectDefaultMetrics();
  }
}

async function answer({ method, url }: IncomingMessage, options: MetricsServerOptions): Promise<Answer> {
  if (method !== "GET") {
    return json(405, { status: "method not allowed" });
  }
  switch (url ?? "") {
    case "/metrics":
      return [200, register.contentType, await register.metrics()];
    case "/healthz":
      return json(200, { status: "ok" });
    case "/readyz":
      return await readiness(options);
    default:
      return json(404, { status: "not found" });
  }
}

async function listen(server: Server, { host, port }: ListenAddress): Promise<ListenAddress> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const bound = server.address() as AddressInfo;
  return { host: bound.address, port: bound.port };
}

/**
 * Serves `/metrics`, `/healthz` (the process runs) and `/readyz` (so does what it depends on; 503 with a list
 * otherwise). One per operating-system process, whatever runs inside: the metrics are the process's.
 */
export async function startMetricsServer(options: MetricsServerOptions): Promise<MetricsServer> {
  const { log } = options;
  collectProcessMetrics();
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const [status, type, body] = await answer(request, options);
    response.writeHead(status, {
      "content-type": type,
      "cache-control": "no-store",
      ...(status === 405 ? { allow: "GET" } : {}),
    });
    response.end(body);
  };
  const server = createServer(LIMITS, (request, response) => {
    respond(request, response).catch((error: unknown) => {
      log.error({ err: error }, "metrics cannot be collected");
      response.destroy();
    });
  });
  server.maxConnections = MAX_CONNECTIONS;
  const address = await listen(server, options.listen);
  log.info({ metrics: formatListen(address) }, "metrics listener started");
  return {
    address,
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}
