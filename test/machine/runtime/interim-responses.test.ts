/** Requests of `fetch` and of the edge to servers that send interim responses which nobody asked for. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createAgent } from "#edge/dispatchers.ts";
import { acceptInterimResponses } from "#runtime/interim-responses.ts";

let server: Server;
let url: string;

beforeAll(async () => {
  server = createServer((request, response) => {
    response.writeContinue();
    response.writeProcessing();
    request.resume().once("end", () => {
      response.writeContinue();
      response.end("ok");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.close();
});

test("fetch returns the final response, on each request of a kept connection", async () => {
  acceptInterimResponses();
  for (let count = 0; count < 3; count += 1) {
    const response = await fetch(url, { method: "POST", body: "{}" });
    expect([response.status, await response.text()]).toEqual([200, "ok"]);
  }
});

test("an upstream of the edge may send them", async () => {
  const agent = createAgent({ connectTimeoutMs: 10_000, headersTimeoutMs: 10_000, idleTimeoutMs: 10_000 });
  const { statusCode, body } = await agent.request({ origin: url, path: "/", method: "POST", body: "{}" });
  expect([statusCode, await body.text()]).toEqual([200, "ok"]);
  await agent.destroy();
});
