/** One judgement of certificates: each chain gets the same verdict wherever it is presented, and OpenSSL's. */
import { Agent, createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { DEFAULT_CIPHERS, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { certificatesOf } from "../../../src/http/mutual-tls/trust.ts";
import { createLogger } from "../../../src/observability/logger.ts";
import { Hub, type Upstream } from "../../../src/revocation/hub.ts";
import { createHubOpener, type HubTls, listenForFollowers } from "../../../src/revocation/hub-socket.ts";
import { CHAINS } from "../../support/certificate-chains.ts";
import {
  certificateFiles,
  clientPair,
  headerValue,
  newRoot,
  serverPair,
} from "../../support/certificates.ts";
import { eventually } from "../../support/eventually.ts";
import { askFor, openMutualTlsListener } from "../../support/mutual-tls-listener.ts";
import type { Chain } from "../../support/made-certificates.ts";

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

/** What one chain came to, by path. */
type Row = Record<string, string>;
const rows = chains.map((): Row => ({}));

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

async function openHub(): Promise<{ open: (chain: Chain) => Promise<string>; close: () => Promise<void> }> {
  const authorities = (pem: string) => ({ pem, certificates: certificatesOf(pem) });
  // It asks its upstream nothing before its start.
  const hub = new Hub({ upstream: {} as Upstream, leaseMs: 240, monotonic: () => 0, log });
  const listen = { host: "127.0.0.1", port: 0 };
  const tls: HubTls = { ...server, anchors: authorities(anchors), names: NAMES };
  const listener = await listenForFollowers({ hub, listen, tls, log });
  const url = `wss://127.0.0.1:${listener.address.port}`;
  const names = ["IP Address:127.0.0.1"];
  return {
    open: async (chain) => {
      const follower: HubTls = { ...pairOf(chain), anchors: authorities(own.cert), names };
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

async function eachChain(check: (chain: Chain, row: Row) => Promise<void>): Promise<void> {
  for (const [index, chain] of chains.entries()) {
    await check(chain, rows[index] as Row);
  }
}

beforeAll(async () => {
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
  const [reference, hub] = [await openReference(), await openHub()];
  const agents = chains.map(
    (chain) =>
      new Agent({
        keepAlive: true,
        maxSockets: 1,
        ca: own.cert,
        ...pairOf(chain),
        ciphers: "DEFAULT:@SECLEVEL=0",
      }),
  );
  await eachChain(async (chain, row) => {
    const pair = pairOf(chain);
    const agent = agents[chains.indexOf(chain)] as Agent;
    for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
      const first = await askFor(native.port, { ca, pair, maxVersion });
      row[`native ${maxVersion}`] = first.verdict;
      const again = await askFor(native.port, { ca, pair, maxVersion, session: first.session });
      row[`again ${maxVersion}`] = again.reused ? "resumed" : again.verdict;
      row["through an edge"] = (
        await askFor(behind.port, { ca, pair: proxy, headers: first.forwarded })
      ).verdict;
    }
    row["open connection"] = (await askFor(native.port, { ca, agent })).verdict;
    const chained = chain.sent.map(headerValue).join(", ");
    const headers = {
      "client-cert": headerValue(chain.leaf),
      ...(chained === "" ? {} : { "client-cert-chain": chained }),
    };
    row["Client-Cert"] = (await askFor(behind.port, { ca, pair: proxy, headers })).verdict;
    row["as a proxy"] = (
      await askFor(behind.port, { ca, pair, headers: { "client-cert": headerValue(known) } })
    ).verdict;
    row["at a hub"] = await hub.open(chain);
    row["OpenSSL"] = (await askFor(reference.port, { ca, pair })).verdict;
  });
  const renewed = await serverPair(own);
  files.write("server.key", renewed.key);
  files.write("server.crt", renewed.cert);
  files.write("clients.crt", anchors + late.cert);
  const newcomer = await clientPair(late);
  await eventually(
    async () => (await askFor(native.port, { ca, pair: newcomer })).verdict === "ok",
    "the reload",
  );
  await eachChain(async (chain, row) => {
    row["after a reload"] = (
      await askFor(native.port, { ca, agent: agents[chains.indexOf(chain)] as Agent })
    ).verdict;
  });
  agents.forEach((agent) => agent.destroy());
  reference.close();
  await Promise.all([native.tls.close(), behind.tls.close(), hub.close()]);
});

describe("every path reaches the verdict", () => {
  test.each(CHAINS.map((one, index) => [one.verdict, one.name, one, index] as const))(
    "%s of %s",
    (verdict, _name, { openSsl }, index) => {
      const admitted = verdict === "ok" ? "ok" : "refused";
      const { OpenSSL: reference, ...row } = rows[index] as Row;
      expect(row).toEqual({
        "native TLSv1.2": verdict,
        "again TLSv1.2": verdict,
        "native TLSv1.3": verdict,
        "again TLSv1.3": verdict,
        "through an edge": verdict,
        "open connection": verdict,
        "after a reload": verdict,
        "Client-Cert": verdict,
        "as a proxy": verdict === "ok" ? "ok" : "forged",
        "at a hub": admitted,
      });
      const other = admitted === "ok" ? "refused" : "ok";
      expect(reference).toBe(openSsl === undefined ? admitted : other);
    },
  );
});
