/** The client's response when the upstream's breaks off before anything was sent. */
import { randomBytes } from "node:crypto";
import type { Agent, Dispatcher } from "undici";
import { expect, test } from "vitest";
import { createServer } from "#http/server.ts";
import { connectionsOf, type UpstreamConnections } from "#edge/dispatchers.ts";
import { registerProxiedRoutes } from "#edge/proxied-routes.ts";
import { Shares } from "#domain/shares.ts";
import { createLogger } from "#observability/logger.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const time = new SimulatedTime();

/** Returns connections to an upstream whose response fails in the same event-loop turn as its headers. */
function failing(): UpstreamConnections {
  const dispatch = (_options: unknown, handler: Dispatcher.DispatchHandler): boolean => {
    const controller = { abort: () => undefined } as unknown as Dispatcher.DispatchController;
    const headers = {
      etag: "broken",
      "set-cookie": "a=b",
      "content-encoding": "gzip",
      "content-length": "9",
    };
    handler.onRequestStart?.(controller, {});
    handler.onResponseStart?.(controller, 200, headers);
    handler.onResponseData?.(controller, Buffer.from("half"));
    handler.onResponseError?.(controller, new Error("the other side closed"));
    return true;
  };
  return connectionsOf(() => ({ dispatch }) as Agent);
}

test("a response that breaks off before its first byte becomes a logged 503 with none of its headers", async () => {
  const lines: string[] = [];
  const log = createLogger({ level: "debug", destination: { write: (line) => void lines.push(line) } });
  const server = createServer({
    baseUrl: "http://edge",
    guards: {},
    clock: { now: () => 0 },
    randomBytes,
    log,
  });
  server.decorateRequest("forwardedAt", 0);
  server.decorateRequest("answeredByUpstream", false);
  server.decorateRequest("passage");
  const by: boolean[] = [];
  server.addHook("onResponse", (request, _reply, done) => {
    by.push(request.answeredByUpstream);
    done();
  });
  registerProxiedRoutes(server, log, {
    timers: time,
    methods: ["GET"],
    paths: ["/v1/files"],
    config: { public: true },
    upstream: "data",
    origin: "http://upstream",
    connections: failing(),
    bodyLimit: 10,
    shares: new Shares(1),
    callerOf: () => "somebody",
    headersFor: (_request, kept) => kept,
  });
  const answer = await server.inject("/v1/files");
  expect(answer.statusCode).toBe(503);
  expect(answer.json()).toMatchObject({
    code: "UNAVAILABLE",
    request_id: answer.headers["x-request-id"],
  });
  expect(answer.headers["retry-after"]).toBe("1");
  for (const name of ["etag", "set-cookie", "content-encoding"]) {
    expect(answer.headers).not.toHaveProperty(name);
  }
  expect(lines.join("")).toContain("the other side closed");
  expect(by).toEqual([false]);
});
