/** Servers whose certificates name no host: each kind of client refuses them, whatever their common name is. */
import { once } from "node:events";
import { createServer, request, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import tls, { connect } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createAgent } from "#edge/dispatchers.ts";
import { createTlsFetch } from "#lib/client/tls-fetch.ts";
import { requireServerNames } from "#lib/server-identity.ts";
import type { CertificateRequest } from "#http/mutual-tls/authority.ts";
import { newRoot, today } from "#test/support/certificates.ts";

const WRONG_NAME = "ERR_TLS_CERT_ALTNAME_INVALID";
const root = await newRoot();
const ca = root.cert;
const before = tls.checkServerIdentity;

async function start(names?: CertificateRequest["names"]): Promise<Server> {
  const named = names === undefined ? {} : { names };
  const pair = await root.issue({ subject: "CN=localhost", purposes: ["serverAuth"], ...named, ...today() });
  const server = createServer(pair, (_request, response) => response.end("ok"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

let named: Server;
let nameless: Server;
let address: Server;
beforeAll(async () => {
  named = await start([{ type: "dns", value: "localhost" }]);
  nameless = await start();
  address = await start([{ type: "ip", value: "127.0.0.1" }]);
  requireServerNames();
});
afterAll(() => {
  Object.assign(tls, { checkServerIdentity: before });
  for (const server of [named, nameless, address]) {
    server.closeAllConnections();
    server.close();
  }
});

type Ask = (port: number) => Promise<unknown>;

const clients: readonly (readonly [string, Ask])[] = [
  [
    "the client library",
    async (port) => await createTlsFetch({ ca })(`https://localhost:${port}/`, { method: "GET" }),
  ],
  [
    "the edge",
    async (port) => {
      const limits = { connectTimeoutMs: 10_000, headersTimeoutMs: 10_000, idleTimeoutMs: 10_000 };
      const agent = createAgent({ ...limits, tls: { ca } });
      try {
        const { body } = await agent.request({
          origin: `https://localhost:${port}`,
          path: "/",
          method: "GET",
        });
        await body.dump();
      } finally {
        await agent.destroy();
      }
    },
  ],
  [
    "a package that uses node:https",
    async (port) => await once(request({ host: "localhost", port, ca, agent: false }).end(), "response"),
  ],
  [
    "a package that uses node:tls",
    async (port) => {
      const socket = connect({ host: "localhost", servername: "localhost", port, ca });
      await once(socket, "secureConnect");
      socket.destroy();
    },
  ],
];

describe.each(clients)("%s", (_name, ask) => {
  const portOf = (server: Server): number => (server.address() as AddressInfo).port;

  test("accepts an alternative name, and refuses the common name alone", async () => {
    await ask(portOf(named));
    for (const server of [nameless, address]) {
      const failure: unknown = await ask(portOf(server)).catch((error: unknown) => error);
      const { code, cause } = failure as {
        readonly code?: string;
        readonly cause?: { readonly code?: string };
      };
      expect(cause?.code ?? code).toBe(WRONG_NAME);
    }
  });
});
