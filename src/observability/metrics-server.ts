/** A process's own listener for its operators: Prometheus metrics, and whether it runs and is ready. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { register } from "prom-client";
import { formatListen, type ListenAddress } from "../config/config.ts";
import { closeAtOnce, listenOn } from "../runtime/http-server.ts";
import { limitPipelining } from "../runtime/pipelined-requests.ts";
import { messageOf } from "../runtime/thrown.ts";
import type { Logger } from "./logger.ts";
import { metrics } from "./metrics.ts";
import { metricsText } from "./process-metrics.ts";
import { failedChecks, type ReadinessCheck, readinessNotes } from "../runtime/readiness.ts";

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
const CHECKS_EVERY_MS = 10_000;

type Answer = readonly [status: number, contentType: string, body: string];

function json(status: number, body: unknown): Answer {
  return [status, "application/json", JSON.stringify(body)];
}

type Readiness = () => Promise<Answer>;

/** Asked every few seconds, so the log gets what changes and not every answer. */
function createReadiness({ readiness: checks, log }: MetricsServerOptions): Readiness {
  let known = "";
  return async () => {
    const failures = await failedChecks(checks());
    const failing = failures.map(({ name }) => name);
    const changed = failing.join() !== known;
    known = failing.join();
    if (failures.length === 0) {
      if (changed) {
        log.info("ready");
      }
      return json(200, { status: "ready", ...readinessNotes(checks()) });
    }
    if (changed) {
      log.warn({ reasons: failures.map(({ name, error }) => `${name}: ${messageOf(error)}`) }, "not ready");
    }
    return json(503, { status: "not ready", failing });
  };
}

/** The gauge of what works is kept beside the scrapes: a check may take its time. */
function watchChecks({ readiness, log }: MetricsServerOptions): NodeJS.Timeout {
  const look = async (): Promise<void> => {
    const checks = readiness();
    const failing = new Set((await failedChecks(checks)).map(({ name }) => name));
    // What is no check any more, such as that the process has started, is to go.
    metrics.checkOk.reset();
    for (const { name } of checks) {
      metrics.checkOk.set({ check: name }, failing.has(name) ? 0 : 1);
    }
  };
  const timer = setInterval(() => {
    look().catch((error: unknown) => log.warn({ err: error }, "what the process depends on cannot be asked"));
  }, CHECKS_EVERY_MS);
  return timer.unref();
}

async function answer({ method, url }: IncomingMessage, readiness: Readiness): Promise<Answer> {
  if (method !== "GET" && method !== "HEAD") {
    return json(405, { status: "method not allowed" });
  }
  switch (url ?? "") {
    case "/metrics":
      return [200, register.contentType, await metricsText()];
    case "/healthz":
      return json(200, { status: "ok" });
    case "/readyz":
      return await readiness();
    default:
      return json(404, { status: "not found" });
  }
}

/**
 * Serves `/metrics`, `/healthz` (the process runs) and `/readyz` (so does what it depends on; 503 with a list
 * otherwise). One per operating-system process, whatever runs inside: the metrics are the process's.
 */
export async function startMetricsServer(options: MetricsServerOptions): Promise<MetricsServer> {
  const { log } = options;
  const readiness = createReadiness(options);
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const [status, type, body] = await answer(request, readiness);
    response.writeHead(status, {
      "content-type": type,
      "cache-control": "no-store",
      ...(status === 405 ? { allow: "GET, HEAD" } : {}),
    });
    response.end(body);
  };
  const server = createServer(LIMITS, (request, response) => {
    respond(request, response).catch((error: unknown) => {
      log.error({ err: error }, "metrics cannot be collected");
      response.destroy();
    });
  });
  limitPipelining(server);
  server.maxConnections = MAX_CONNECTIONS;
  const address = await listenOn(server, options.listen);
  const watched = watchChecks(options);
  log.info({ metrics: formatListen(address) }, "metrics listener started");
  return {
    address,
    close: async () => {
      clearInterval(watched);
      await closeAtOnce(server);
    },
  };
}
