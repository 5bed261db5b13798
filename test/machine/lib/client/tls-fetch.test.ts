/** `fetch` with a client certificate, over real TLS. */
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { TLSSocket } from "node:tls";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createTlsFetch, type TlsMaterial } from "#lib/client/tls-fetch.ts";
import { clientPair, newRoot, today } from "#test/support/certificates.ts";
import { testRuntime } from "#test/support/client-runtime.ts";

const root = await newRoot();
const material = { ...(await clientPair(root, { subject: "CN=first" })), ca: root.cert };
const renewed = { ...(await clientPair(root, { subject: "CN=second" })), ca: root.cert };
const localhost = await root.issue({
  subject: "CN=server",
  names: [{ type: "dns", value: "localhost" }],
  purposes: ["serverAuth"],
  ...today(),
});

let server: Server;
let url: string;
let connections: number;
/** Lets a response break off after it has begun. */
let released: PromiseWithResolvers<void>;

beforeEach(async () => {
  connections = 0;
  released = Promise.withResolvers();
  server = createServer(
    { ...localhost, ca: root.cert, requestCert: true, rejectUnauthorized: false },
    (request, response) => {
      const socket = request.socket as TLSSocket;
      void text(request).then((body) => {
        const status = Number(request.headers["x-status"] ?? 200);
        if (request.url === "/broken") {
          response.write("first");
          void released.promise.then(() => response.destroy());
          return;
        }
        response.writeHead(status, { "x-twice": ["a", "b"], location: "/elsewhere" });
        const { method, headers } = request;
        const name = socket.authorized ? socket.getPeerCertificate().subject.CN : null;
        const said = {
          name,
          sni: socket.servername,
          method,
          body,
          length: headers["content-length"] ?? null,
        };
        response.end(status === 204 ? undefined : JSON.stringify(said));
      });
    },
  );
  server.on("secureConnection", () => (connections += 1));
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  url = `https://localhost:${(server.address() as AddressInfo).port}/path`;
});

afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => {
    server.close(resolve);
  });
});

test("fetch presents the certificate, names the host, sends the body, and reuses the connection", async () => {
  const fetch = createTlsFetch(material);
  for (let count = 0; count < 3; count += 1) {
    const response = await fetch(url, { method: "POST", body: "größe", headers: { "x-a": "b" } });
    expect(await response.json()).toEqual({
      name: "first",
      sni: "localhost",
      method: "POST",
      body: "größe",
      length: "7",
    });
    expect(response.headers.get("x-twice")).toBe("a, b");
  }
  expect(connections).toBe(1);
});

test("fetch accepts an authority without a client certificate, and rejects half of a key pair", async () => {
  expect(await (await createTlsFetch({ ca: root.cert })(url, {})).json()).toMatchObject({ name: null });
  await expect(createTlsFetch({})(url, {})).rejects.toThrow("certificate");
  const { cert, ca } = material;
  await expect(createTlsFetch({ cert, ca })(url, {})).rejects.toThrow("belong together");
});

test("fetch sends a form as other OAuth clients do", async () => {
  const form = new URLSearchParams({ a: "b c" });
  const response = await createTlsFetch(material)(url, { method: "POST", body: form });
  expect(await response.json()).toMatchObject({ body: "a=b+c" });
});

test("fetch reads responses without a body, and follows no redirect", async () => {
  const fetch = createTlsFetch(material);
  const empty = await fetch(url, { method: "DELETE", headers: { "x-status": "204" } });
  expect({ status: empty.status, text: await empty.text() }).toEqual({ status: 204, text: "" });
  expect((await fetch(url, { headers: { "x-status": "307" } })).status).toBe(307);
});

test("a response is streamed, and one that breaks off is an error", async () => {
  const response = await createTlsFetch(material)(url.replace("/path", "/broken"), {});
  const pieces: string[] = [];
  const reading = async (): Promise<void> => {
    for await (const piece of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      pieces.push(Buffer.from(piece).toString());
      released.resolve();
    }
  };
  await expect(reading()).rejects.toThrow(/aborted/);
  expect(pieces).toEqual(["first"]);
});

test("fetch uses a renewed certificate within half a minute, on a new connection", async () => {
  const { clock, ...runtime } = testRuntime();
  let present = material;
  const fetch = createTlsFetch(async () => await Promise.resolve(present), clock);
  const name = async () => ((await (await fetch(url, {})).json()) as { name: string }).name;
  expect(await name()).toBe("first");
  present = renewed;
  runtime.advance(29_000);
  expect(await name()).toBe("first");
  runtime.advance(1_000);
  expect(await name()).toBe("second");
  runtime.advance(30_000);
  expect(await name()).toBe("second");
  expect(connections).toBe(2);
});

test("fetch keeps the old certificate while the files of the next one do not match", async () => {
  const { clock, ...runtime } = testRuntime();
  const sources: (() => TlsMaterial)[] = [
    () => material,
    () => ({ ...material, cert: renewed.cert }),
    () => {
      throw new Error("ENOENT");
    },
    () => renewed,
  ];
  const fetch = createTlsFetch(() => (sources.shift() ?? (() => renewed))(), clock);
  const names: string[] = [];
  for (let reload = 0; reload < 4; reload += 1) {
    names.push(((await (await fetch(url, {})).json()) as { name: string }).name);
    runtime.advance(30_000);
  }
  expect(names).toEqual(["first", "first", "first", "second"]);
});

test("fetch reports a certificate that does not match its key, and checks again at the next request", async () => {
  let present: TlsMaterial = { ...material, cert: renewed.cert };
  const fetch = createTlsFetch(() => present);
  await expect(fetch(url, {})).rejects.toThrow(/key values mismatch/i);
  present = material;
  expect((await fetch(url, {})).status).toBe(200);
});

test("fetch does not talk to a server of another authority", async () => {
  const { ca: _ca, ...withoutAuthority } = material;
  await expect(createTlsFetch(withoutAuthority)(url, {})).rejects.toThrow(/certificate/);
});

test("fetch rejects plain http, and ends with its signal", async () => {
  const fetch = createTlsFetch(material);
  await expect(fetch("http://localhost/", {})).rejects.toThrow(TypeError);
  await expect(fetch(url, { method: "POST", body: new Blob(["x"]) })).rejects.toThrow(TypeError);
  await expect(fetch(url, { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: "AbortError" });
});
