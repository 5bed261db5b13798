import { once } from "node:events";
import { createServer } from "node:tls";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { HttpSender } from "#webhooks/sending/http-sender.ts";
import type { Receiver } from "#test/support/receiver-server.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import type { Authority, KeyPair } from "./http-certificates.ts";
import { createAuthority } from "./http-certificates.ts";
import { createTestSender, requestTo } from "./http-fixtures.ts";

let authority: Authority;
let good: KeyPair;
let receiver: Receiver | null = null;
const senders: HttpSender[] = [];

beforeAll(() => {
  authority = createAuthority();
  good = authority.issue("DNS:hooks.example.com,IP:127.0.0.1");
});
afterEach(async () => {
  await Promise.all(senders.splice(0).map((sender) => sender.close()));
  await receiver?.close();
  receiver = null;
});
afterAll(() => {
  authority.remove();
});

async function attempt(
  tls: KeyPair,
  host = "hooks.example.com",
  trusted: readonly string[] | null = [authority.cert],
) {
  receiver = await startReceiver({ tls });
  const sender = createTestSender({
    resolver: async () => ["127.0.0.1"],
    ...(trusted === null ? undefined : { extraCertificateAuthorities: trusted }),
  });
  senders.push(sender);
  const request = requestTo(`https://${host}:${receiver.port}/`);
  return { sender, receiver, request, result: await sender.send(request) };
}

describe("an https receiver", () => {
  it("with a valid certificate gets the delivery over a reusable connection", async () => {
    const { sender, receiver, request, result } = await attempt(good);
    expect(result).toMatchObject({ status: 200, error: null });
    for (let count = 0; count < 20; count += 1) {
      expect(await sender.send(request)).toMatchObject({ status: 200 });
    }
    expect(receiver.connections).toBe(1);
    expect(receiver.requests[0]?.headers.host).toBe(`hooks.example.com:${receiver.port}`);
  });

  it("may be a literal address that the certificate names", async () => {
    expect((await attempt(good, "127.0.0.1")).result).toMatchObject({ status: 200, error: null });
  });

  it("gets the wanted server name and an offer of only HTTP/1.1", async () => {
    const server = createServer({ ...good, ALPNProtocols: ["h2", "http/1.1"] });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const seen = once(server, "secureConnection");
    const sender = createTestSender({
      resolver: async () => ["127.0.0.1"],
      extraCertificateAuthorities: [authority.cert],
    });
    const sending = sender.send(
      requestTo(`https://hooks.example.com:${(server.address() as AddressInfo).port}/`),
    );
    const [socket] = (await seen) as [{ servername: string; alpnProtocol: string; destroy(): void }];
    expect(socket).toMatchObject({ servername: "hooks.example.com", alpnProtocol: "http/1.1" });
    socket.destroy();
    expect(await sending).toMatchObject({ error: "aborted" });
    server.close();
    await sender.close();
  });

  const refused: readonly (readonly [string, () => Parameters<typeof attempt>])[] = [
    ["of an unknown CA", () => [good, "hooks.example.com", null]],
    ["for another name", () => [good, "other.example.com"]],
    ["for another address", () => [good, "127.0.0.2"]],
    ["that names it in its common name only", () => [authority.issue(null, 2, "hooks.example.com")]],
    [
      "that names an address, and it in its common name",
      () => [authority.issue("IP:127.0.0.1", 2, "hooks.example.com")],
    ],
    ["that has expired", () => [authority.issue("DNS:hooks.example.com", -1)]],
  ];
  it.each(refused)("with a certificate %s gets no byte of a delivery", async (_which, parameters) => {
    const [tls, host, trusted] = parameters();
    const { result, receiver } = await attempt(tls, host, trusted);
    expect(result).toMatchObject({
      status: null,
      error: host === "127.0.0.2" ? "connect" : "tls",
      responseBody: null,
    });
    await receiver.waitForConnections(0);
    expect(receiver.requests).toHaveLength(0);
  });

  it("is verified whatever certificate settings the environment has", async () => {
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    try {
      expect((await attempt(good, "other.example.com")).result).toMatchObject({ status: null, error: "tls" });
    } finally {
      delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    }
  });

  it("that speaks plain HTTP causes a tls failure", async () => {
    receiver = await startReceiver();
    const sender = createTestSender();
    senders.push(sender);
    const result = await sender.send(requestTo(receiver.url.replace("http", "https")));
    expect(result).toMatchObject({ status: null, error: "tls" });
    expect(receiver.requests).toHaveLength(0);
  });

  it("that speaks at most TLS 1.1 causes a tls failure", async () => {
    const server = createServer({
      ...good,
      minVersion: "TLSv1",
      maxVersion: "TLSv1.1",
      ciphers: "ALL:@SECLEVEL=0",
    });
    server.on("tlsClientError", () => {});
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const sender = createTestSender({ extraCertificateAuthorities: [authority.cert] });
    const result = await sender.send(
      requestTo(`https://127.0.0.1:${(server.address() as AddressInfo).port}/`),
    );
    expect(result).toMatchObject({ status: null, error: "tls" });
    server.close();
    await sender.close();
  });
});
