/** Counts and times the answers of a listener. */
import type { FastifyInstance } from "fastify";
import { metrics } from "./metrics.ts";

const MS = 1_000;

interface Route {
  readonly seconds: { observe(seconds: number): void };
  /** By status: few, and looked up without making a label set of each request. */
  readonly counters: Map<number, { inc(): void }>;
}

/** @param listener `public` or `admin` */
export function installRequestMetrics(
  server: Pick<FastifyInstance, "addHook">,
  listener: "public" | "admin",
): void {
  const routes = new Map<string, Route>();
  server.addHook("onResponse", (request, reply, done) => {
    // What matches no route has no pattern: one series, whatever was asked for.
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
