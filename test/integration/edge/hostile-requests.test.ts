/** Requests that two servers could interpret differently, and headers that could impersonate the edge. */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { unlessStale } from "#test/support/answer.ts";
import { exchange, useSharedApi } from "#test/support/api.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { accessToken, bearer, provision } from "#test/support/factories.ts";
import { call } from "#test/support/https-request.ts";

const api = useSharedApi();
const edge = useTestEdge(api);

let token: string;
beforeAll(async () => {
  const client = await provision(api, {
    scopes: ["inference:read", "telemetry:export"],
    environment: "development",
  });
  token = await accessToken(api, client);
});
beforeEach(() => {
  edge.upstream.requests.length = 0;
});

/** Sends bytes, as `unlessStale`. */
async function sendBytes(bytes: string): Promise<string> {
  const before = edge.upstream.requests.length;
  const { text } = await unlessStale(async () => {
    edge.upstream.requests.length = before;
    const answers = await exchange(edge.port, bytes);
    return { status: answers.includes("REVOCATION_STALE") ? 503 : status(answers), text: answers };
  });
  return text;
}

/** Sends raw lines, adding a token, a host and a final blank line. */
async function raw(requestLine: string, headers: readonly string[] = [], body = ""): Promise<string> {
  const head = [requestLine, "Host: edge", `Authorization: Bearer ${token}`, "Connection: close", ...headers];
  return await sendBytes(`${head.join("\r\n")}\r\n\r\n${body}`);
}

const status = (answer: string): number => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]);

describe("paths cannot bypass a route's scope:", () => {
  // The token may read inferences but not write pipelines; none of these may reach the upstream.
  test.each([
    "/v1//pipelines",
    "//v1/pipelines",
    "/v1/inference/../pipelines",
    "/v1/inference/%2e%2e/pipelines",
    "/v1/inference/..%2fpipelines",
    "/v1/inference/..%2Fpipelines",
    "/v1/inference/..%5cpipelines",
    "/v1/inference/..;/pipelines",
    "/v1/inference/x/%252e%252e/%252e%252e/pipelines",
    "/v1/./pipelines",
    "/v1/pipelines%00",
    "/v1/pipelines#x",
    "/v1/pipelines;x=1",
    "/v1\\pipelines",
    "/v1/pipelines%",
    "http://edge/v1/pipelines",
    "http://evil.example/v1/inference/a",
    "*",
    "v1/pipelines",
    "/v1/pip\u00e9lines",
  ])("%s", async (path) => {
    for (const method of ["GET", "POST"]) {
      expect(status(await raw(`${method} ${path} HTTP/1.1`, ["Content-Length: 0"]))).toBe(400);
    }
    expect(edge.upstream.requests).toEqual([]);
  });

  test.each([
    ["an escaped letter", "/v1/%70ipelines", 403],
    ["capitals", "/V1/pipelines", 404],
    ["a trailing slash", "/v1/pipelines/", 404],
    ["a further segment", "/v1/pipelines/x", 404],
    ["a query", "/v1/pipelines?path=/v1/inference/x", 403],
  ])("%s", async (_name, path, expected) => {
    expect(status(await raw(`POST ${path} HTTP/1.1`, ["Content-Length: 0"]))).toBe(expected);
    expect(edge.upstream.requests).toEqual([]);
  });

  test("the edge forwards the path that it matched", async () => {
    expect(status(await raw("GET /v1/inference/%73mall%20one?q=%2e%2e HTTP/1.1"))).toBe(200);
    expect(edge.upstream.requests).toMatchObject([{ url: "/v1/inference/small%20one?q=%2e%2e" }]);
  });

  test("a parameter must not be empty; a wildcard may be", async () => {
    expect(status(await raw("GET /v1/inference/ HTTP/1.1"))).toBe(404);
    expect(edge.upstream.requests).toEqual([]);
    expect(status(await raw("GET /v1/telemetry/ HTTP/1.1"))).toBe(200);
    expect(edge.upstream.requests).toMatchObject([{ url: "/v1/telemetry/" }]);
  });

  test("a parameter may be as long as the URL, whose length is limited", async () => {
    const long = `/v1/inference/${"m".repeat(8_000)}`;
    expect(status(await raw(`GET ${long} HTTP/1.1`))).toBe(200);
    expect(edge.upstream.requests).toMatchObject([{ url: long }]);
    expect(status(await raw(`GET ${long}${"m".repeat(1_000)} HTTP/1.1`))).toBe(414);
    expect(status(await raw(`GET /v1/inference/m?${"q".repeat(9_000)} HTTP/1.1`))).toBe(414);
    expect(edge.upstream.requests).toHaveLength(1);
  });

  test("a route admits only its methods", async () => {
    expect(await raw("DELETE /v1/inference/x HTTP/1.1")).toMatch(
      /^HTTP\/1\.1 405 [\s\S]*allow: GET, HEAD\r\n/i,
    );
    expect(status(await raw("POST /v1/inference/x HTTP/1.1", ["X-HTTP-Method-Override: GET"]))).toBe(405);
    expect(edge.upstream.requests).toEqual([]);
  });
});

describe("one request remains one request:", () => {
  const smuggled = "POST /v1/pipelines HTTP/1.1\r\nHost: edge\r\nContent-Length: 0\r\n\r\n";
  test.each([
    ["two lengths", ["Content-Length: 3", "Content-Length: 4"], "abcd"],
    ["a list of lengths", ["Content-Length: 3, 3"], "abc"],
    ["a length with a sign", ["Content-Length: +3"], "abc"],
    ["a negative length", ["Content-Length: -1"], ""],
    ["a length in hexadecimal", ["Content-Length: 0x3"], "abc"],
    ["a length and chunks", ["Content-Length: 4", "Transfer-Encoding: chunked"], `0\r\n\r\n${smuggled}`],
    ["chunks and a length", ["Transfer-Encoding: chunked", "Content-Length: 4"], `0\r\n\r\n${smuggled}`],
    ["a further coding", ["Transfer-Encoding: gzip, chunked"], `0\r\n\r\n`],
    ["chunked twice", ["Transfer-Encoding: chunked, chunked"], `0\r\n\r\n`],
    ["an unknown coding", ["Transfer-Encoding: xchunked"], `0\r\n\r\n`],
    ["chunked in two headers", ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], `0\r\n\r\n`],
    ["a space before the colon", ["Transfer-Encoding : chunked"], `0\r\n\r\n`],
    ["a folded header", ["Transfer-Encoding:", " chunked"], `0\r\n\r\n`],
    ["a header with a bare line feed", ["X-A: b\nTransfer-Encoding: chunked"], `0\r\n\r\n`],
    ["a header with NUL", ["X-A: b\u0000c"], ""],
    ["a second host", ["Host: other"], ""],
    ["an invalid chunk size", ["Transfer-Encoding: chunked"], "zz\r\nabc\r\n0\r\n\r\n"],
    ["a chunk longer than its size", ["Transfer-Encoding: chunked"], "1\r\nabc\r\n0\r\n\r\n"],
    ["endless chunk extensions", ["Transfer-Encoding: chunked"], `1;${"a".repeat(20_000)}\r\nx\r\n0\r\n\r\n`],
  ])("%s", async (_name, headers, body) => {
    const answer = await raw("POST /v1/telemetry/x HTTP/1.1", headers, body);
    expect([400, 413]).toContain(status(answer));
    // No potential second request was answered.
    expect(answer.match(/HTTP\/1\.1 \d/g)).toHaveLength(1);
    expect(edge.upstream.requests).toEqual([]);
  });

  test("a GET with a body", async () => {
    for (const headers of [["Content-Length: 3"], ["Transfer-Encoding: chunked"]]) {
      expect(status(await raw("GET /v1/inference/x HTTP/1.1", headers, "abc"))).toBe(400);
    }
    expect(edge.upstream.requests).toEqual([]);
  });

  test("HTTP/1.0 with chunks", async () => {
    const answer = await raw("POST /v1/telemetry/x HTTP/1.0", ["Transfer-Encoding: chunked"], "0\r\n\r\n");
    expect(status(answer)).toBe(400);
  });

  test("two on one connection are two, each with its own decision", async () => {
    const head = `Host: edge\r\nAuthorization: Bearer ${token}\r\n`;
    const answers = await sendBytes(
      `GET /v1/inference/a HTTP/1.1\r\n${head}\r\nPOST /v1/pipelines HTTP/1.1\r\n${head}Content-Length: 0\r\nConnection: close\r\n\r\n`,
    );
    expect([...answers.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, code]) => code)).toEqual(["200", "403"]);
    expect(edge.upstream.requests).toHaveLength(1);
  });

  test("an unknown expectation is dropped, and CONNECT is rejected", async () => {
    expect(status(await raw("GET /v1/inference/x HTTP/1.1", ["Expect: signet"]))).toBe(200);
    expect(edge.upstream.requests[0]?.headers).not.toHaveProperty("expect");
    const answer = await raw("CONNECT edge:443 HTTP/1.1");
    expect(answer).toMatch(/^HTTP\/1\.1 400 [^]*x-request-id: req_[^]*"code":"INVALID_REQUEST"/i);
  });

  test("upgrades are rejected, and an offer of HTTP/2 is ignored", async () => {
    const upgrade = (to: string) => ["Connection: Upgrade", `Upgrade: ${to}`, "Sec-WebSocket-Version: 13"];
    expect(status(await raw("GET /v1/inference/x HTTP/1.1", upgrade("websocket")))).toBe(400);
    expect(edge.upstream.requests).toEqual([]);
    expect(status(await raw("GET /v1/inference/x HTTP/1.1", upgrade("h2c")))).toBe(200);
    expect(edge.upstream.requests[0]?.headers).not.toHaveProperty("upgrade");
  });
});

describe("headers", () => {
  const ask = async (headers: Record<string, string>) =>
    await call("/v1/inference/x", { port: edge.port, headers: { ...bearer(token), ...headers } });

  test.each([
    "X-Signet-Identity",
    "X-Signet-Identity-Signature",
    "X_Signet_Identity",
    "X-Signet-Anything",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X_Forwarded_For",
    "Forwarded",
    "X-Real-IP",
    "X-Original-URL",
    "X-Rewrite-URL",
    "X-HTTP-Method-Override",
    "X-SSL-Client-Cert",
    "Proxy-Authorization",
    "TE",
    "Keep-Alive",
  ])("a caller cannot set %s", async (name) => {
    expect(await ask({ [name]: "forged" })).toMatchObject({ status: 200 });
    const [forwarded] = edge.upstream.requests;
    expect(JSON.stringify(forwarded?.rawHeaders)).not.toContain("forged");
  });

  test("a client certificate in a header is rejected, not dropped", async () => {
    expect(await ask({ "client-cert": ":AAAA:" })).toMatchObject({
      status: 400,
      body: { code: "INVALID_REQUEST" },
    });
    expect(edge.upstream.requests).toEqual([]);
  });

  test("Connection removes the headers that it names, but never the edge's own", async () => {
    expect(
      await ask({
        connection: "close, X-Hop, X-Signet-Identity, Authorization",
        "x-hop": "1",
        "x-kept": "2",
      }),
    ).toMatchObject({ status: 200 });
    const [forwarded] = edge.upstream.requests;
    expect(forwarded?.headers).not.toHaveProperty("x-hop");
    expect(forwarded?.headers).toMatchObject({
      "x-kept": "2",
      "x-signet-identity": expect.any(String) as string,
    });
  });

  test("an upstream's answer loses connection headers and headers that only the edge may set", async () => {
    edge.upstream.behave((_request, response) => {
      response.writeHead(200, {
        connection: "close, x-hop",
        "x-hop": "1",
        "keep-alive": "timeout=1000",
        "proxy-authenticate": "Basic",
        "x-signet-identity": "forged",
        "x-request-id": "forged",
        "x-kept": "2",
        "set-cookie": ["a=1", "b=2"],
      });
      response.end("ok");
    });
    const answer = await ask({});
    edge.upstream.behave(undefined);
    expect(answer.headers).toMatchObject({ "x-kept": "2", "set-cookie": ["a=1", "b=2"] });
    for (const name of ["x-hop", "proxy-authenticate", "x-signet-identity"]) {
      expect(answer.headers).not.toHaveProperty(name);
    }
    expect(JSON.stringify(answer.headers)).not.toContain("forged");
  });
});
