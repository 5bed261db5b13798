/** Counts and times the responses of a listener. */
import type { FastifyInstance } from "fastify";
import { metrics } from "./metrics.ts";

const MS = 1_000;

interface Route {
  readonly seconds: { observe(seconds: number): void };
  /** Counters by status, which avoids creating a label set per request. */
  readonly counters: Map<number, { inc(): void }>;
}

/** @param listener `public` or `admin` */
export function installRequestMetrics(
  server: Pick<FastifyInstance, "addHook">,
  listener: "public" | "admin",
): void {
  const routes = new Map<string, Route>();
  server.addHook("onResponse", (request, reply, done) => {
    // Requests without a matching route share one series.
    const route = request.routeOptions.url ?? "none";
    const { method } = request;
    const key = `${method} ${route}`;
    let known = routes.get(key);
    if (known === undefined) {
      known = { seconds: metrics.httpSeconds.labels(listener, route), counters: new Map() };
      routes.set(key, known);
    }
    let counter = known.counters.get(reply.statusCode);
    if (counter === undefined) {
      counter = metrics.httpRequests.labels(listener, route, method, String(reply.statusCode));
      known.counters.set(reply.statusCode, counter);
    }
    counter.inc();
    known.seconds.observe(reply.elapsedTime / MS);
    done();
  });
}
