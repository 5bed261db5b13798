/** A client that is closed while a call waits for its repetition, as at the end of a process. */
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { expect, test } from "vitest";
import { checkNamespace, createLazyClient } from "#temporal/client.ts";

test("a call that is to be repeated when its connection is closed ends, and throws from no timer", async () => {
  const server = createServer((socket) => socket.destroy());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = createLazyClient({
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    namespace: "default",
    compression: "none",
    patched: false,
    tls: false,
    metadata: {},
  });
  const refused = once(server, "connection");
  const call = checkNamespace(client, 60_000);
  await refused;
  const ended = call.catch((error: unknown) => error);
  await client.connection.close();
  expect(await ended).toMatchObject({ code: 1 });
  server.close();
});
