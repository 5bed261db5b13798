/** The client's response when the upstream's breaks off before anything was sent. */
import { randomBytes } from "node:crypto";
import type { Agent, Dispatcher } from "undici";
import { expect, test } from "vitest";
import { createServer } from "../../../src/http/server.ts";
import { systemClock } from "../../../src/domain/clock.ts";
import { connectionsOf, type UpstreamConnections } from "../../../src/edge/dispatchers.ts";
import { registerProxiedRoutes } from "../../../src/edge/proxied-routes.ts";
import { Shares } from "../../../src/domain/shares.ts";
import { createLogger } from "../../../src/observability/logger.ts";

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
  const server = createServer({ baseUrl: "http://edge", guards: {}, clock: systemClock, randomBytes, log });
  server.decorateRequest("forwardedAt", 0);
  server.decorateRequest("answeredByUpstream", false);
  server.decorateRequest("passage");
  const by: boolean[] = [];
  server.addHook("onResponse", (request, _reply, done) => {
    by.push(request.answeredByUpstream);
    done();
  });
  registerProxiedRoutes(server, log, {
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
  const origin = await server.listen({ host: "127.0.0.1", port: 0 });
  try {
    const answer = await fetch(`${origin}/v1/files`);
    expect(answer.status).toBe(503);
    expect(await answer.json()).toMatchObject({
      code: "UNAVAILABLE",
      request_id: answer.headers.get("x-request-id"),
    });
    expect(answer.headers.get("retry-after")).toBe("1");
    for (const name of ["etag", "set-cookie", "content-encoding"]) {
      expect(answer.headers.has(name)).toBe(false);
    }
    expect(lines.join("")).toContain("the other side closed");
    expect(by).toEqual([false]);
  } finally {
    await server.close();
  }
});
