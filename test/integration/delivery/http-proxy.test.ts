import { once } from "node:events";
import { createServer, type AddressInfo, connect, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { AddressPolicy } from "#webhooks/sending/address-policy.ts";
import type { HttpSender, HttpSenderOptions } from "#webhooks/sending/http-sender.ts";
import { outboundProxy } from "#config/egress-settings.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import vectors from "#test/support/vectors/targets.json" with { type: "json" };
import { type Authority, createAuthority, type KeyPair } from "./http-certificates.ts";
import { createTestSender, requestTo } from "./http-fixtures.ts";

/** A forward proxy that leads every tunnel to one local port, or gives a fixed answer. */
interface Proxy {
  readonly port: number;
  /** Heads of the CONNECT requests. */
  readonly heads: string[];
  /** Bytes that came through tunnels. */
  readonly bytes: Buffer[];
}

let authority: Authority;
let pair: KeyPair;
const servers: Server[] = [];
const sockets = new Set<Socket>();
const senders: HttpSender[] = [];
const receivers: Receiver[] = [];

beforeAll(() => {
  authority = createAuthority();
  pair = authority.issue("DNS:hooks.example.com,DNS:proxy.example.com,IP:127.0.0.1");
  return () => {
    authority.remove();
  };
});
afterEach(async () => {
  await Promise.all(senders.splice(0).map((sender) => sender.close()));
  await Promise.all(receivers.splice(0).map((receiver) => receiver.close()));
  sockets.forEach((socket) => socket.destroy());
  servers.splice(0).forEach((server) => server.close());
});

async function startProxy(
  answer: { readonly to: number } | { readonly raw: string } | { readonly hang: true },
  tls?: KeyPair,
  interim = "",
): Promise<Proxy> {
  const heads: string[] = [];
  const bytes: Buffer[] = [];
  const onSocket = (socket: Socket): void => {
    sockets.add(socket);
    socket.on("error", () => {});
    let head = "";
    const onData = (chunk: Buffer): void => {
      head += chunk.toString("latin1");
      if (!head.includes("\r\n\r\n")) {
        return;
      }
      socket.off("data", onData);
      heads.push(head);
      if ("raw" in answer) {
        socket.write(answer.raw);
      } else if ("to" in answer) {
        const upstream = connect({ host: "127.0.0.1", port: answer.to }, () => {
          socket.write(`${interim}HTTP/1.1 200 Connection established\r\n\r\n`);
          socket.on("data", (data: Buffer) => bytes.push(data));
          socket.pipe(upstream).pipe(socket);
        });
        sockets.add(upstream);
        upstream.on("error", () => socket.destroy());
      }
    };
    socket.on("data", onData);
  };
  const server = tls === undefined ? createServer(onSocket) : createTlsServer(tls, onSocket);
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, heads, bytes };
}

async function start(options: { readonly tls?: KeyPair } = {}): Promise<Receiver> {
  const receiver = await startReceiver(options);
  receivers.push(receiver);
  return receiver;
}

const production = new AddressPolicy({ allowedCidrs: [], allowHttp: false, ownListeners: [] });

function sender(proxyUrl: string, options: Partial<HttpSenderOptions> = {}): HttpSender {
  const made = createTestSender({
    policy: production,
    proxy: outboundProxy(proxyUrl),
    extraCertificateAuthorities: [authority.cert],
    resolver: () => Promise.reject(new Error("with a proxy nothing is looked up here")),
    ...options,
  });
  senders.push(made);
  return made;
}

describe("behind a forward proxy", () => {
  it("requests use a tunnel, with TLS to the receiver end to end", async () => {
    const receiver = await start({ tls: pair });
    const proxy = await startProxy({ to: receiver.port });
    const http = sender(`http://carol:p%40ss%3Aword@127.0.0.1:${proxy.port}`);
    const request = requestTo("https://hooks.example.com/in", { body: Buffer.from('{"canary":"payload"}') });
    for (let count = 0; count < 3; count += 1) {
      expect(await http.send(request)).toMatchObject({ status: 200, error: null });
    }
    expect(proxy.heads).toEqual([
      "CONNECT hooks.example.com:443 HTTP/1.1\r\nHost: hooks.example.com:443\r\n" +
        `Proxy-Authorization: Basic ${Buffer.from("carol:p@ss:word").toString("base64")}\r\n\r\n`,
    ]);
    expect(Buffer.concat(proxy.bytes).includes("canary")).toBe(false);
    expect(receiver.requests).toHaveLength(3);
    expect(receiver.requests[0]?.rawHeaders.join().toLowerCase()).not.toContain("proxy");
  });

  it("the proxy may send interim responses before it opens the tunnel", async () => {
    const receiver = await start({ tls: pair });
    const proxy = await startProxy(
      { to: receiver.port },
      undefined,
      "HTTP/1.1 100 Continue\r\n\r\n".repeat(2),
    );
    const http = sender(`http://127.0.0.1:${proxy.port}`);
    expect(await http.send(requestTo("https://hooks.example.com/"))).toMatchObject({ status: 200 });
  });

  it("the connection to the proxy may also be encrypted", async () => {
    const receiver = await start({ tls: pair });
    const proxy = await startProxy({ to: receiver.port }, pair);
    const http = sender(`https://127.0.0.1:${proxy.port}`);
    expect(await http.send(requestTo("https://hooks.example.com/"))).toMatchObject({ status: 200 });
    const unknown = createAuthority();
    const refusing = sender(`https://127.0.0.1:${proxy.port}`, {
      extraCertificateAuthorities: [unknown.cert],
    });
    expect(await refusing.send(requestTo("https://hooks.example.com/"))).toMatchObject({ error: "connect" });
    unknown.remove();
  });

  it("a receiver's bad certificate is still a tls failure", async () => {
    const receiver = await start({ tls: authority.issue("DNS:other.example.com") });
    const proxy = await startProxy({ to: receiver.port });
    const http = sender(`http://127.0.0.1:${proxy.port}`);
    expect(await http.send(requestTo("https://hooks.example.com/"))).toMatchObject({ error: "tls" });
    expect(receiver.requests).toHaveLength(0);
  });

  it("the rules for URLs and literal addresses apply: the proxy gets no forbidden request", async () => {
    const proxy = await startProxy({ raw: "HTTP/1.1 403 No\r\n\r\n" });
    const http = sender(`http://127.0.0.1:${proxy.port}`);
    for (const url of vectors.denied_urls) {
      expect(await http.send(requestTo(url))).toMatchObject({ status: null, error: "refused" });
    }
    expect(proxy.heads).toEqual([]);
  });

  const broken: readonly (readonly [string, Parameters<typeof startProxy>[0]])[] = [
    ["that refuses the tunnel", { raw: "HTTP/1.1 407 Denied\r\nContent-Length: 0\r\n\r\n" }],
    ["that does not speak HTTP", { raw: "SSH-2.0-x\r\n\r\n" }],
    ["whose headers do not end", { raw: `HTTP/1.1 200 OK\r\nX-A: ${"x".repeat(20_000)}` }],
    ["that answers twice", { raw: "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" }],
  ];
  it.each(broken)("a proxy %s causes a connect failure at once", async (_which, answer) => {
    const proxy = await startProxy(answer);
    const http = sender(`http://127.0.0.1:${proxy.port}`);
    await withoutPause(async () => {
      const result = await http.send(requestTo("https://hooks.example.com/"));
      expect(result).toMatchObject({ status: null, error: "connect", responseBody: null });
      expect(result.durationMs).toBeLessThan(1_000);
    });
  });

  it("an unreachable proxy causes a connect failure, a hanging one a timeout", async () => {
    const gone = await start();
    const { port } = gone;
    await gone.close();
    const away = sender(`http://127.0.0.1:${port}`);
    expect(await away.send(requestTo("https://hooks.example.com/"))).toMatchObject({ error: "connect" });
    const proxy = await startProxy({ hang: true });
    const hanging = sender(`http://127.0.0.1:${proxy.port}`);
    const request = requestTo("https://hooks.example.com/", { deadlineMs: 2_000 });
    expect(await hanging.send(request)).toMatchObject({ error: "timeout" });
    expect(proxy.heads).toHaveLength(1);
  });
});
