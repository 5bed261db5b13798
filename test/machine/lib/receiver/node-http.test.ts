/** The listener for node:http and Express. */
import { createServer, request as httpRequest, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { webhookListener } from "#lib/receiver/node-http.ts";
import type { ReceiverOptions } from "#lib/receiver/receive.ts";
import { delivery, NOW_MS, SECRET } from "#test/support/library-delivery.ts";

const servers: { close(): void; closeAllConnections(): void }[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function listen(listener: RequestListener): Promise<number> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return (server.address() as AddressInfo).port;
}

const options = (more: Partial<ReceiverOptions> = {}): ReceiverOptions => ({
  secrets: [SECRET],
  onEvent: () => undefined,
  onError: () => undefined,
  now: () => NOW_MS,
  ...more,
});

async function post(port: number, { body, headers } = delivery(), method = "POST"): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}/`, {
    method,
    headers,
    ...(method === "POST" ? { body } : {}),
  });
  await response.text();
  return response.status;
}

it("answers 200, 401, 405 and 413", async () => {
  const port = await listen(webhookListener(options({ maxBodyBytes: 1_000 })));
  const { body, headers } = delivery();
  expect(await post(port)).toBe(200);
  expect(await post(port, { body: Buffer.from("{}"), headers })).toBe(401);
  expect(await post(port, { body, headers }, "GET")).toBe(405);
  expect(await post(port, { body: Buffer.alloc(1_001, "x"), headers })).toBe(413);
});

it("waits for a body up to its timeout", async () => {
  const port = await listen(webhookListener(options({ bodyMs: 50 })));
  const status = await new Promise((resolve, reject) => {
    const request = httpRequest({ port, host: "127.0.0.1", method: "POST" }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on("error", reject);
    request.write("{");
  });
  expect(status).toBe(408);
});
