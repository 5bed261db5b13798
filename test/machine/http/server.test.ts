import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { createServer, listenServer } from "../../../src/http/server.ts";
import { createLogger } from "../../../src/observability/logger.ts";

test("localhost is one listener, with the usual limits", async () => {
  const server = createServer({
    baseUrl: "http://service.example",
    guards: {},
    clock: { now: () => 0 },
    randomBytes,
    log: createLogger({ level: "silent" }),
  });
  const { host, port } = await listenServer(server, { host: "localhost", port: 0 });
  expect(server.addresses()).toMatchObject([{ address: host, port }]);
  await server.close();
});
