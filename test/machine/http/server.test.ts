import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { expect, test } from "vitest";
import { createServer, listenServer } from "../../../src/http/server.ts";
import { createLogger } from "../../../src/observability/logger.ts";

function silentServer(): ReturnType<typeof createServer> {
  return createServer({
    baseUrl: "http://service.example",
    guards: {},
    clock: { now: () => 0 },
    randomBytes,
    log: createLogger({ level: "silent" }),
  });
}

test("localhost is one listener, with the usual limits", async () => {
  const server = silentServer();
  const { host, port } = await listenServer(server, { host: "localhost", port: 0 });
  expect(server.addresses()).toMatchObject([{ address: host, port }]);
  await server.close();
});

test("every method that a path does not have is a 405 with its methods, also QUERY without a body", async () => {
  const server = silentServer();
  server.get("/there", { config: { public: true } }, async () => await Promise.resolve({}));
  const { port } = await listenServer(server, { host: "localhost", port: 0 });
  for (const method of ["QUERY", "PROPFIND", "TRACE", "DELETE", "LINK", "POST"]) {
    const sent = request({ host: "localhost", port, path: "/there", method }).end();
    const [answer] = (await once(sent, "response")) as [IncomingMessage];
    answer.resume();
    expect([method, answer.statusCode, answer.headers.allow]).toEqual([method, 405, "GET, HEAD"]);
  }
  await server.close();
});
