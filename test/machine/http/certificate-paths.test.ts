/** One judgement of certificates: each chain gets the same verdict wherever it is presented, and OpenSSL's. */
import { randomBytes } from "node:crypto";
import { Agent, createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { DEFAULT_CIPHERS, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadConfig } from "#config/config.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { createServer as createHttpServer } from "#http/server.ts";
import { certificatesOf } from "#http/mutual-tls/trust.ts";
import { createLogger } from "#observability/logger.ts";
import { AdminListener } from "#processes/api/admin-listener.ts";
import { Hub } from "#revocation/hub.ts";
import type { Upstream } from "#revocation/hub-questions.ts";
import { createHubOpener, type HubTls, HubListener } from "#revocation/hub-socket.ts";
import { CHAINS } from "#test/support/certificate-chains.ts";
import {
  certificateFiles,
  clientPair,
  headerValue,
  newRoot,
  serverPair,
} from "#test/support/certificates.ts";
import { eventually } from "#test/support/eventually.ts";
import type { CallOptions } from "#test/support/https-request.ts";
import { askFor, openMutualTlsListener } from "#test/support/mutual-tls-listener.ts";
import type { Chain } from "#test/support/made-certificates.ts";

const PROXY = "URI:spiffe://service.example/edge";
/** Every name that a leaf of the table has, so that only its chain decides. */
const NAMES = [PROXY, "URI:spiffe://clients.example.com/billing"];

const files = certificateFiles();
afterAll(() => files.remove());
const log = createLogger({ level: "silent" });
const own = await newRoot("Servers");
const late = await newRoot("Late");
const server = await serverPair(own);
const proxy = await clientPair(own, { sanUri: "spiffe://service.example/edge" });
const known = await clientPair(own);
const chains = await Promise.all(CHAINS.map(async ({ build }) => await build()));
const anchors = chains.flatMap((chain) => chain.anchors.map(({ cert }) => cert)).join("") + own.cert;

const ca = own.cert;
const pairOf = ({ leaf, sent }: Chain) => ({
  key: leaf.key,
  cert: [leaf, ...sent].map(({ cert }) => cert).join(""),
});

/** OpenSSL's own verdict of a handshake, at the same security level. */
async function openReference(): Promise<{ port: number; close: () => void }> {
  const reference = createServer(
    {
      ...server,
      ca: anchors,
      requestCert: true,
      rejectUnauthorized: false,
      ciphers: `${DEFAULT_CIPHERS}:@SECLEVEL=2`,
    },
    (request, response) => {
      response.end(JSON.stringify({ verdict: (request.socket as TLSSocket).authorized ? "ok" : "refused" }));
    },
  );
  await new Promise<void>((resolve) => void reference.listen(0, "127.0.0.1", resolve));
  return { port: (reference.address() as AddressInfo).port, close: () => void reference.close() };
}

/** The operators' listener. */
async function openOperators(): Promise<{ port: number; close: () => Promise<void> }> {
  const config = loadConfig(
    {
      SIGNET_ENV: "development",
      SIGNET_DATABASE_URL: "postgres://user:password@localhost/none",
      SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
      SIGNET_ADMIN_TLS_KEY_FILE: files.path("server.key"),
      SIGNET_ADMIN_TLS_CERT_FILE: files.path("server.crt"),
      SIGNET_ADMIN_TLS_CLIENT_CA_FILE: files.path("clients.crt"),
    },
    "service",
  );
  const listener = await AdminListener.open({ config, clock: systemClock, log });
  const { clients } = listener;
  const parts = {
    baseUrl: "http://service.example",
    guards: {},
    clients,
    clock: systemClock,
    randomBytes,
    log,
  };
  const admin = createHttpServer(parts);
  admin.get("/", { config: { public: true }, schema: { hide: true } }, async (request) => {
    return await Promise.resolve({ verdict: request.clientCertificateProblem ?? "ok" });
  });
  await admin.ready();
  const { port } = await listener.listen(admin);
  return {
    port,
    close: async () => {
      await Promise.all([admin.close(), listener.close()]);
    },
  };
}

async function openHub(): Promise<{ open: (chain: Chain) => Promise<string>; close: () => Promise<void> }> {
  const authorities = (pem: string) => ({ pem, certificates: certificatesOf(pem) });
  // It asks its upstream nothing before its start.
  const hub = new Hub({ upstream: {} as Upstream, leaseMs: 240, timers: machineTimers, log });
  const listen = { host: "127.0.0.1", port: 0 };
  const tls: HubTls = { ...server, anchors: authorities(anchors), names: NAMES, relays: [] };
  const listener = new HubListener({
    timers: machineTimers,
    clock: systemClock,
    hub,
    listen,
    tls,
    log,
  });
  const { port } = await listener.listen();
  const url = `wss://127.0.0.1:${port}`;
  const names = ["IP Address:127.0.0.1"];
  return {
    open: async (chain) => {
      const follower: HubTls = { ...pairOf(chain), anchors: authorities(own.cert), names, relays: [] };
      const handlers = { onMessage: () => undefined, onClose: () => undefined };
      try {
        (await createHubOpener(() => follower)(url, handlers)).close();
        return "ok";
      } catch {
        return "refused";
      }
    },
    close: async () => await listener.close(),
  };
}

let opened: Awaited<ReturnType<typeof openAll>>;

async function openAll() {
  files.write("server.key", server.key);
  files.write("server.crt", server.cert);
  files.write("clients.crt", anchors);
  const native = await openMutualTlsListener(files, { SIGNET_MTLS_MODE: "native" });
  const behind = await openMutualTlsListener(files, {
    SIGNET_MTLS_MODE: "proxy",
    SIGNET_PROXY_CA_FILE: files.path("clients.crt"),
    SIGNET_PROXY_NAMES: NAMES.join(","),
    SIGNET_TRUSTED_PROXIES: "127.0.0.1/32",
  });
  const [reference, hub, operators] = [await openReference(), await openHub(), await openOperators()];
  return { native, behind, reference, hub, operators };
}

beforeAll(async () => {
  opened = await openAll();
});
afterAll(async () => {
  const { native, behind, reference, hub, operators } = opened;
  [edge, ...agents].forEach((agent) => agent.destroy());
  reference.close();
  await Promise.all([native.tls.close(), behind.tls.close(), hub.close(), operators.close()]);
});

/** The connection of a trusted proxy. */
const edge = new Agent({ keepAlive: true, maxSockets: 1, ca, ...proxy });
/** A connection of each client, which stays open. */
const agents = chains.map(
  (chain) =>
    new Agent({ keepAlive: true, maxSockets: 1, ca, ...pairOf(chain), ciphers: "DEFAULT:@SECLEVEL=0" }),
);
const TABLE = CHAINS.map((one, index) => [one.verdict, one.name, one, index] as const);

/** A new connection, and another one that offers to resume its session. */
async function nativeVerdicts(chain: Chain, maxVersion: "TLSv1.2" | "TLSv1.3"): Promise<string[]> {
  const { port } = opened.native;
  const options = { ca, pair: pairOf(chain), maxVersion };
  const first = await askFor(port, options);
  const again = await askFor(port, { ...options, session: first.session });
  return [first.verdict, again.reused ? "resumed" : again.verdict];
}

async function verdictsOf(chain: Chain, agent: Agent) {
  const { native, behind, operators, hub } = opened;
  const pair = pairOf(chain);
  const open = await askFor(native.port, { ca, agent });
  const asked = async (options: CallOptions) => (await askFor(behind.port, { ca, ...options })).verdict;
  const chained = chain.sent.map(headerValue).join(", ");
  const headers = {
    "client-cert": headerValue(chain.leaf),
    ...(chained === "" ? {} : { "client-cert-chain": chained }),
  };
  return {
    native: open.verdict,
    "TLS 1.2, again": await nativeVerdicts(chain, "TLSv1.2"),
    "TLS 1.3, again": await nativeVerdicts(chain, "TLSv1.3"),
    "through an edge": await asked({ agent: edge, headers: open.forwarded }),
    "Client-Cert": await asked({ agent: edge, headers }),
    "as a proxy": await asked({ pair, headers: { "client-cert": headerValue(known) } }),
    "as an operator": (await askFor(operators.port, { ca, pair })).verdict,
    "at a hub": await hub.open(chain),
  };
}

describe("every path reaches the verdict", () => {
  test.each(TABLE)("%s of %s", async (verdict, _name, { openSsl }, index) => {
    const chain = chains[index] as Chain;
    const admitted = verdict === "ok" ? "ok" : "refused";
    expect(await verdictsOf(chain, agents[index] as Agent)).toEqual({
      native: verdict,
      "TLS 1.2, again": [verdict, verdict],
      "TLS 1.3, again": [verdict, verdict],
      "through an edge": verdict,
      "Client-Cert": verdict,
      "as a proxy": verdict === "ok" ? "ok" : "forged",
      "as an operator": verdict,
      "at a hub": admitted,
    });
    const other = admitted === "ok" ? "refused" : "ok";
    const reference = await askFor(opened.reference.port, { ca, pair: pairOf(chain) });
    expect(reference.verdict).toBe(openSsl === undefined ? admitted : other);
  });
});

describe("an open connection keeps the verdict after a reload", () => {
  beforeAll(async () => {
    const renewed = await serverPair(own);
    files.write("server.key", renewed.key);
    files.write("server.crt", renewed.cert);
    files.write("clients.crt", anchors + late.cert);
    const pair = await clientPair(late);
    const { port } = opened.native;
    await eventually(async () => (await askFor(port, { ca, pair })).verdict === "ok", "the reload");
  });

  test.each(TABLE)("%s of %s", async (verdict, _name, _one, index) => {
    const agent = agents[index] as Agent;
    expect(await askFor(opened.native.port, { ca, agent })).toMatchObject({ verdict, wasOpen: true });
  });
});
