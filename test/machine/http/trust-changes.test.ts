/** A verdict on a certificate counts only under the authorities that it was made under, on every connection. */
import { Agent } from "node:https";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { certificatesOf } from "#http/mutual-tls/trust.ts";
import { createLogger } from "#observability/logger.ts";
import { Hub } from "#revocation/hub.ts";
import type { Upstream } from "#revocation/hub-questions.ts";
import { createHubOpener, type HubTls, HubListener } from "#revocation/hub-socket.ts";
import {
  certificateFiles,
  clientPair,
  headerValue,
  newRoot,
  serverPair,
  today,
} from "#test/support/certificates.ts";
import { eventually } from "#test/support/eventually.ts";
import { askFor, openMutualTlsListener } from "#test/support/mutual-tls-listener.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";

const EDGE = "spiffe://service.example/edge";
const [first, second] = [await newRoot("First"), await newRoot("Second")];
const server = await serverPair(first);
const log = createLogger({ level: "silent" });

const files = certificateFiles();
afterEach(() => files.write("clients.crt", first.cert));
files.write("server.key", server.key);
files.write("server.crt", server.cert);
files.write("clients.crt", first.cert);

const ca = first.cert;

function agentOf(pair: { readonly key: string; readonly cert: string }): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca, ...pair });
  onTestFinished(() => agent.destroy());
  return agent;
}

test("an authority that is taken away ends the trust in its proxies, on open connections within seconds", async () => {
  const proxies = files.write("proxies.crt", first.cert);
  const { port, tls } = await openMutualTlsListener(files, {
    SIGNET_MTLS_MODE: "proxy",
    SIGNET_PROXY_CA_FILE: proxies,
    SIGNET_PROXY_NAMES: `URI:${EDGE}`,
    SIGNET_TRUSTED_PROXIES: "127.0.0.1/32",
  });
  onTestFinished(async () => await tls.close());
  const headers = { "client-cert": headerValue(await clientPair(first)) };
  const agent = agentOf(await clientPair(first, { sanUri: EDGE }));
  expect((await askFor(port, { ca, agent, headers })).verdict).toBe("ok");
  files.write("proxies.crt", second.cert);
  const pair = await clientPair(second, { sanUri: EDGE });
  await eventually(async () => (await askFor(port, { ca, pair, headers })).verdict === "ok", "the reload");
  expect((await askFor(port, { ca, agent, headers })).verdict).toBe("forged");
});

test("an authority that is added is trusted on connections that were open before", async () => {
  const { port, tls } = await openMutualTlsListener(files, { SIGNET_MTLS_MODE: "native" });
  onTestFinished(async () => await tls.close());
  const agent = agentOf(await clientPair(second));
  expect((await askFor(port, { ca, agent })).verdict).toBe("not trusted");
  files.write("clients.crt", first.cert + second.cert);
  await eventually(async () => (await askFor(port, { ca, agent })).verdict === "ok", "the added authority");
  files.write("clients.crt", first.cert);
  await eventually(async () => (await askFor(port, { ca, agent })).verdict === "not trusted", "the removal");
});

const NAMES = ["DNS:hub.test", "DNS:edge.test"];
const trusting = (...authorities: readonly { readonly cert: string }[]): Omit<HubTls, "key" | "cert"> => {
  const pem = authorities.map(({ cert }) => cert).join("");
  return { anchors: { pem, certificates: certificatesOf(pem) }, names: NAMES, relays: [] };
};

/** A certificate below an intermediate, for both purposes. */
async function member(name: string, root: typeof first): Promise<{ key: string; cert: string }> {
  const middle = await root.issueAuthority({ subject: `CN=Below for ${name}`, ...today() });
  const { key, cert } = await middle.issue({
    subject: `CN=${name}`,
    names: [{ type: "dns", value: `${name}.test` }],
    purposes: ["serverAuth", "clientAuth"],
    ...today(),
  });
  return { key, cert: cert + middle.cert };
}

/** Opens a hub, and a connection to it. */
async function openPair() {
  const [hubPair, edgePair] = [await member("hub", first), await member("edge", first)];
  const tls = { hub: { ...hubPair, ...trusting(first) }, edge: { ...edgePair, ...trusting(first) } };
  const hub = new Hub({ upstream: {} as Upstream, leaseMs: 240, timers: machineTimers, log });
  const accepting = vi.spyOn(hub, "accept");
  const listener = new HubListener({
    timers: machineTimers,
    clock: systemClock,
    hub,
    listen: { host: "127.0.0.1", port: 0 },
    tls: tls.hub,
    log,
  });
  const { port } = await listener.listen();
  onTestFinished(async () => await listener.close());
  const seen = { state: "open", messages: 0 };
  const opened = await createHubOpener(() => tls.edge)(`wss://127.0.0.1:${port}`, {
    onMessage: () => {
      seen.messages += 1;
    },
    onClose: () => {
      seen.state = "closed";
    },
  });
  onTestFinished(() => opened.close());
  const say = async (): Promise<void> => {
    const before = seen.messages;
    accepting.mock.lastCall?.[0].send("{}");
    await eventually(() => seen.messages > before || seen.state === "closed", "the message");
  };
  return { tls, listener, seen, say };
}

test("a hub ends connections of an authority that is taken away, and of no other", async () => {
  const { tls, listener, seen, say } = await openPair();
  const renewed = await member("hub", first);
  listener.renew({ ...tls.hub, ...renewed });
  await say();
  listener.renew({ ...tls.hub, ...trusting(second, first) });
  await say();
  expect(seen.state).toBe("open");
  listener.renew({ ...tls.hub, ...trusting(second) });
  await eventually(() => seen.state === "closed", "the end of the connection");
});

test("an edge leaves a hub of an authority that is taken away, and no other", async () => {
  const { tls, seen, say } = await openPair();
  tls.edge = { ...tls.edge, ...trusting(second, first) };
  await say();
  expect(seen.state).toBe("open");
  tls.edge = { ...tls.edge, ...trusting(second) };
  await say();
  expect(seen).toEqual({ state: "closed", messages: 1 });
});
