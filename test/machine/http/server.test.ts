import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { createServer, listenServer } from "#http/server.ts";
import { createLogger } from "#observability/logger.ts";

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

test("a method that no parser knows is a 405 with the path's methods, too", async () => {
  const server = silentServer();
  server.get("/there", { config: { public: true } }, async () => await Promise.resolve({}));
  const { host, port } = await listenServer(server, { host: "localhost", port: 0 });
  const answerTo = async (...packets: readonly string[]): Promise<string> => {
    const socket = connect(port, host);
    for (const packet of packets) {
      socket.write(packet);
    }
    return await text(socket);
  };
  const end = " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
  for (const [line, status, allow] of [
    ["FOO /there", 405, "GET, HEAD"],
    ["get /there?x=/nowhere", 405, "GET, HEAD"],
    ["X-BREW_1 /there?a", 405, "GET, HEAD"],
    ["FOO /nowhere", 404, undefined],
    ["FOO https://localhost/there", 400, undefined],
    ["FOO there", 400, undefined],
    ["F(O /there", 400, undefined],
    // The second of two requests.
    ["GET /there HTTP/1.1\r\nHost: localhost\r\n\r\nFOO /there", 405, "GET, HEAD"],
  ] as const) {
    const answer = await answerTo(line + end);
    const last = answer.slice(answer.lastIndexOf("HTTP/1.1"));
    expect([line, Number(last.split(" ")[1])]).toEqual([line, status]);
    expect(/^allow: (.*)$/im.exec(last)?.[1]?.trim()).toBe(allow);
    expect(last).toMatch(/^connection: close$/im);
  }
  await server.close();
});
