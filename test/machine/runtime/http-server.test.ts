import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { listenOn, trackUnused } from "#runtime/http-server.ts";
import { skipUnless } from "#test/support/skips.ts";

let server: Server;
let closeUnused: () => void;
let sockets: Socket[];

beforeEach(async () => {
  sockets = [];
  server = createServer((_request, response) => response.end("answer"));
  closeUnused = trackUnused(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});

afterEach(() => {
  for (const socket of sockets) {
    socket.destroy();
  }
  server.closeAllConnections();
  server.close();
});

async function open(): Promise<Socket> {
  const accepted = once(server, "connection");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  sockets.push(socket);
  await Promise.all([once(socket, "connect"), accepted]);
  return socket;
}

test("a server that closes does not wait for a connection on which nothing arrived", async () => {
  const [unused, used] = [await open(), await open()];
  used.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await once(used, "data");
  const closed = once(server, "close");
  const ended = once(unused, "close");
  server.close();
  closeUnused();
  await Promise.all([closed, ended]);
});

test("a request that is arriving is still answered", async () => {
  const socket = await open();
  socket.write("GET / HTTP/1.1\r\nHost: a\r\n");
  // The server has read the first half when a complete request on another connection is answered after it.
  const other = await open();
  other.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await once(other, "data");
  closeUnused();
  server.close();
  socket.write("\r\n");
  const [answer] = (await once(socket, "data")) as [Buffer];
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 200 /);
});

const notLinux = skipUnless(process.platform === "linux", "shared ports", "only Linux spreads connections");

test.skipIf(notLinux)("listenOn shares a port only with servers that share it too", async () => {
  const at = { host: "127.0.0.1", port: 0 };
  const servers = [createServer(), createServer(), createServer()] as const;
  try {
    const address = await listenOn(servers[0], at, true);
    expect(await listenOn(servers[1], address, true)).toEqual(address);
    await expect(listenOn(servers[2], address)).rejects.toThrow("EADDRINUSE");
  } finally {
    servers.forEach((server) => server.close());
  }
});

test.skipIf(notLinux)("listenOn waits for a port that another server holds alone", async () => {
  const [older, newer] = [createServer(), createServer()];
  try {
    const address = await listenOn(older, { host: "127.0.0.1", port: 0 });
    const refused = once(newer, "error");
    const listening = listenOn(newer, address, true);
    expect(await refused).toMatchObject([{ code: "EADDRINUSE" }]);
    older.close();
    expect(await listening).toEqual(address);
  } finally {
    newer.close();
  }
});
