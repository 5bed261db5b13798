/** A connection on which no request begins ends; one with a request under way stays. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { endUnused, listenOn } from "#runtime/http-server.ts";

test("of two connections, the one without a request ends first, and the other is answered", async () => {
  let unused: Promise<unknown> | undefined;
  const server = createServer((_request, response) => {
    void unused?.then(() => response.end("answered"));
  });
  endUnused(server, 100);
  await listenOn(server, { host: "127.0.0.1", port: 0 });
  const { port } = server.address() as AddressInfo;
  const silent = connect(port, "127.0.0.1").resume();
  await once(silent, "connect");
  unused = once(silent, "close");
  const answer = await fetch(`http://127.0.0.1:${port}/`);
  expect(await answer.text()).toBe("answered");
  expect(silent.bytesRead).toBe(0);
  server.close();
  server.closeAllConnections();
});
