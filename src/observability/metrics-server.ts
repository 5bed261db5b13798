/** A process's listener for its operators: Prometheus metrics, liveness and readiness. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { register } from "prom-client";
import { formatListen, type ListenAddress } from "#config/config.ts";
import { closeAtOnce, endUnused, listenOn } from "#runtime/http-server.ts";
import { limitPipelining } from "#runtime/pipelined-requests.ts";
import { messageOf } from "#runtime/thrown.ts";
import type { Logger } from "./logger.ts";
import { metrics } from "./metrics.ts";
import { metricsText } from "./process-metrics.ts";
import { failedChecks, type ReadinessCheck, readinessNotes } from "#runtime/readiness.ts";
import type { Timer, Timers } from "#domain/clock.ts";

export interface MetricsServerOptions {
  /** Address of the listener; port 0 is any free one. */
  readonly listen: ListenAddress;
  /** Returns the current checks, which change while the process starts. */
  readonly readiness: () => readonly ReadinessCheck[];
  readonly timers: Timers;
  readonly log: Logger;
}

export interface MetricsServer {
  readonly address: ListenAddress;
  close(): Promise<void>;
}

/** Limits for scrapers and health checks: small, quick requests over few connections. */
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

/** Answers every few seconds' requests, but logs only changes. */
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

/** Updates the metric of checks outside of scrapes, because a check may take long. */
function watchChecks({ readiness, timers, log }: MetricsServerOptions): Timer {
  const look = async (): Promise<void> => {
    const checks = readiness();
    const failing = new Set((await failedChecks(checks)).map(({ name }) => name));
    // Removes checks that no longer exist, such as that of the start.
    metrics.checkOk.reset();
    for (const { name } of checks) {
      metrics.checkOk.set({ check: name }, failing.has(name) ? 0 : 1);
    }
  };
  const timer = timers.every(CHECKS_EVERY_MS, () => {
    look().catch((error: unknown) => log.warn({ err: error }, "the readiness checks could not be made"));
  });
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
 * Serves `/metrics`, `/healthz` (the process runs) and `/readyz` (its dependencies work, else 503 with the failed
 * checks). There is one per operating-system process, because metrics are per process.
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
  endUnused(server);
  server.maxConnections = MAX_CONNECTIONS;
  const address = await listenOn(server, options.listen);
  const watched = watchChecks(options);
  log.info({ metrics: formatListen(address) }, "metrics listener started");
  return {
    address,
    close: async () => {
      options.timers.cancel(watched);
      await closeAtOnce(server);
    },
  };
}
