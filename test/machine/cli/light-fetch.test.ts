/** The command line's `fetch`, compared with the global one. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { lightFetch } from "#cli/light-fetch.ts";
import { readText } from "#lib/bounded-body.ts";

let server: Server;
let url: string;

beforeAll(async () => {
  server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      if (request.url === "/hang") {
        return;
      }
      const { authorization, "content-type": type, "content-length": length } = request.headers;
      const body = Buffer.concat(chunks).toString();
      response.writeHead(request.url === "/moved" ? 302 : 200, {
        "content-type": "application/json",
        location: "/elsewhere",
      });
      response.end(JSON.stringify({ method: request.method, authorization, type, length, body }));
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

test.each([
  [{}],
  [{ method: "POST", headers: { authorization: "Bearer x", "content-type": "text/plain" }, body: "über" }],
  [{ method: "DELETE", headers: { authorization: "Bearer x" } }],
  [{ method: "POST", body: new Uint8Array([104, 105]) }],
])("sends what the global one sends: %j", async (init: RequestInit) => {
  const [own, theirs] = [await lightFetch(url, init), await fetch(url, init)];
  expect([own.status, own.ok, own.headers.get("Content-Type"), own.headers.get("x-absent")]).toEqual([
    200,
    true,
    "application/json",
    null,
  ]);
  expect(JSON.parse(await readText(own))).toEqual(await theirs.json());
});

test("a body is read in chunks or by a reader", async () => {
  const text = await (await fetch(url)).text();
  let iterated = "";
  for await (const chunk of (await lightFetch(url)).body as unknown as AsyncIterable<Uint8Array>) {
    iterated += Buffer.from(chunk).toString();
  }
  const reader = ((await lightFetch(url)).body as ReadableStream<Uint8Array>).getReader();
  const { value } = await reader.read();
  expect([iterated, Buffer.from(value ?? []).toString()]).toEqual([text, text]);
});

test("a redirect is an answer, and nothing is sent elsewhere", async () => {
  const { status, ok } = await lightFetch(`${url}/moved`);
  expect([status, ok]).toEqual([302, false]);
});

test("a signal ends the request, and a refused connection rejects with its code", async () => {
  await expect(lightFetch(`${url}/hang`, { signal: AbortSignal.timeout(20) })).rejects.toThrow("aborted");
  await expect(lightFetch("http://127.0.0.1:1/")).rejects.toMatchObject({ code: "ECONNREFUSED" });
});

test("calls to this machine leave out the proxy that Node takes from the environment", async () => {
  const own = pathToFileURL(`${import.meta.dirname}/../../../src/cli/light-fetch.ts`).href;
  const code = `const { lightFetch } = await import(${JSON.stringify(own)});
    process.stdout.write(String((await lightFetch(process.argv[1])).status));`;
  const options = ["--disable-warning=ExperimentalWarning", "--input-type=module", "--eval", code];
  for (const address of [url, url.replace("127.0.0.1", "localhost")]) {
    const { stdout } = await promisify(execFile)(process.execPath, [...options, address], {
      // Nothing listens there.
      env: { NODE_USE_ENV_PROXY: "1", http_proxy: "http://127.0.0.1:1" },
    });
    expect(stdout).toBe("200");
  }
});
