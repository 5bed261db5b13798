/** Malformed HTTP requests, sent byte by byte because no client library would send them. */
import { beforeAll, describe, expect, test } from "vitest";
import { unlessStale } from "#test/support/answer.ts";
import { exchange, useSharedApi } from "#test/support/api.ts";
import { accessToken, provision } from "#test/support/factories.ts";

const api = useSharedApi();
let token: string;

beforeAll(async () => {
  token = await accessToken(api, await provision(api));
});

const CLOSE = "Connection: close";

function request(line: string, ...headers: readonly string[]): string {
  return `${[line, ...headers].join("\r\n")}\r\n\r\n`;
}

interface Parsed {
  readonly status: number;
  readonly head: string;
  /** The content as it arrived. */
  readonly text: string;
  readonly body: Record<string, unknown>;
}

function parse(text: string): Parsed {
  const [head = "", content = ""] = text.split("\r\n\r\n", 2);
  return {
    status: Number(head.split(" ")[1]),
    head: head.toLowerCase(),
    text: content,
    body: JSON.parse(content) as Record<string, unknown>,
  };
}

async function send(bytes: string): Promise<Parsed> {
  return await unlessStale(async () => parse(await exchange(api.publicPort, bytes)));
}

function expectProblem({ status, head, body }: Parsed, expectedStatus: number, code: string): void {
  expect({ status, code: body["code"] }).toEqual({ status: expectedStatus, code });
  expect(head).toContain("content-type: application/problem+json");
  expect(head).toContain("cache-control: no-store");
  expect(head).toContain(`x-request-id: ${String(body["request_id"])}`);
}

const HOST = "Host: service.example";
const LIST = "GET /v1/credentials HTTP/1.1";

describe("duplicate headers", () => {
  test.each([
    [
      "Authorization, valid then invalid",
      () => [`Authorization: Bearer ${token}`, "Authorization: Bearer x"],
    ],
    [
      "Authorization, invalid then valid",
      () => ["Authorization: Bearer x", `AUTHORIZATION: Bearer ${token}`],
    ],
    ["Host", () => ["Host: other.example", `Authorization: Bearer ${token}`]],
    [
      "Content-Type",
      () => [`Authorization: Bearer ${token}`, "Content-Type: application/json", "Content-Type: text/plain"],
    ],
    ["Idempotency-Key", () => [`Authorization: Bearer ${token}`, "Idempotency-Key: a", "Idempotency-Key: a"]],
  ])("a duplicate %s is a 400", async (_name, headers) => {
    expectProblem(await send(request(LIST, HOST, ...headers(), CLOSE)), 400, "INVALID_REQUEST");
  });
});

test.each([
  ["a Host with a space", LIST, ["Host: a b"]],
  ["a Host with a user", LIST, ["Host: evil@x"]],
  ["a Host with a path", LIST, ["Host: a/b"]],
  ["a Host with a port that is none", LIST, ["Host: a:b"]],
  ["HTTP/2.0", "GET /v1/credentials HTTP/2.0", [HOST]],
  ["a coding beside chunked", "POST /v1/events HTTP/1.1", [HOST, "Transfer-Encoding: gzip, chunked"]],
])("%s is a 400, and the connection ends", async (_name, line, headers) => {
  const answer = await send(request(line, ...headers, `Authorization: Bearer ${token}`));
  expectProblem(answer, 400, "INVALID_REQUEST");
  expect(answer.head).toContain("connection: close");
});

test.each(["[::1]:8080", "a_b.example", "192.0.2.1:", "xn--4ca.example:443"])(
  "%s is a Host",
  async (host) => {
    expect((await send(request(LIST, `Host: ${host}`, `Authorization: Bearer ${token}`, CLOSE))).status).toBe(
      200,
    );
  },
);

test("a request without Host is a 400", async () => {
  expectProblem(await send(request("GET /healthz HTTP/1.1", CLOSE)), 400, "INVALID_REQUEST");
});

test("a request with more than 100 headers is a 431, since an Authorization after them could be lost", async () => {
  const padding = (count: number) => Array.from({ length: count }, (_, index) => `X-Padding-${index}: 1`);
  const rest = [HOST, `Authorization: Bearer ${token}`, CLOSE];
  expect((await send(request(LIST, ...padding(97), ...rest))).status).toBe(200);
  expectProblem(await send(request(LIST, ...padding(98), ...rest)), 431, "HEADERS_TOO_LARGE");
  expectProblem(await send(request(LIST, ...padding(1_100), ...rest)), 431, "HEADERS_TOO_LARGE");
});

test("headers of more than 16 KiB are a 431", async () => {
  expectProblem(
    await send(request(LIST, HOST, `X-Padding: ${"x".repeat(17_000)}`)),
    431,
    "HEADERS_TOO_LARGE",
  );
});

test.each([
  ["a path", `/v1/credentials/${"x".repeat(8_200)}`],
  ["an unknown path", `/${"x".repeat(8_200)}`],
  ["a query", `/v1/credentials?cursor=${"x".repeat(8_200)}`],
  ["a path too long for the parser", `/${"x".repeat(20_000)}`],
  ["a query too long for the parser with the headers", `/v1/credentials?cursor=${"x".repeat(16_200)}`],
])("%s of more than 8 KiB is a 414, and the answer does not repeat it", async (_name, target) => {
  const answer = await send(request(`GET ${target} HTTP/1.1`, HOST, `Authorization: Bearer ${token}`));
  expectProblem(answer, 414, "URI_TOO_LONG");
  expect(answer.body).not.toHaveProperty("instance");
});

test("a long unknown address is a 404", async () => {
  const target = `/v1/credentials/${"x".repeat(8_000)}`;
  const head = [HOST, `Authorization: Bearer ${token}`, CLOSE];
  expectProblem(await send(request(`GET ${target} HTTP/1.1`, ...head)), 404, "NOT_FOUND");
});

test("an unknown expectation is ignored like any other header", async () => {
  const { status, head } = await send(request("GET /healthz HTTP/1.1", HOST, "Expect: signet", CLOSE));
  expect(status).toBe(200);
  expect(head).toContain("x-request-id: req_");
});

test("CONNECT gets a 400 instead of no answer", async () => {
  expectProblem(await send(request("CONNECT a.example:443 HTTP/1.1", HOST)), 400, "INVALID_REQUEST");
});

test.each([
  ["a TLS handshake", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"],
  ["a bare method", "GET\r\n\r\n"],
  ["a space before the colon", request(LIST, HOST, "Authorization : Bearer x")],
  ["a folded header", request(LIST, HOST, "X-A: 1\r\n 2")],
  ["a NUL in a header", request(LIST, HOST, "X-A: \0")],
  [
    "both a length and chunks",
    request("POST /v1/auth/token HTTP/1.1", HOST, "Content-Length: 5", "Transfer-Encoding: chunked"),
  ],
  [
    "two different lengths",
    request("POST /v1/auth/token HTTP/1.1", HOST, "Content-Length: 5", "Content-Length: 6"),
  ],
  ["a negative length", request("POST /v1/auth/token HTTP/1.1", HOST, "Content-Length: -1")],
])("%s is a 400 and closes the connection", async (_name, bytes) => {
  expectProblem(await send(bytes), 400, "INVALID_REQUEST");
});

test("a malformed second request gets its own answer after the first", async () => {
  const text = await exchange(api.publicPort, request("GET /healthz HTTP/1.1", HOST), "garbage\r\n\r\n");
  expect(text).toMatch(/^HTTP\/1\.1 200 OK/);
  expect(text).toMatch(/HTTP\/1\.1 400 Bad Request[^]*"code":"INVALID_REQUEST"/);
});

test.each(["%", "%zz", "%c3%28", "/v1/%ff"])("the path %s is a 400", async (path) => {
  const target = path.startsWith("/") ? path : `/${path}`;
  expectProblem(await send(request(`GET ${target} HTTP/1.1`, HOST, CLOSE)), 400, "INVALID_REQUEST");
});

test.each([
  ["an invalid escape", "limit=%zz"],
  ["an escape of invalid UTF-8", "cursor=%ff"],
  ["a NUL", "cursor=%00"],
  ["a duplicate parameter", "limit=1&limit=1"],
  ["a duplicate parameter, once escaped", "limit=1&l%69mit=1"],
  ["an unknown parameter", "limt=1"],
  ["a parameter in list form", "limit[]=1"],
  ["a parameter named like a member of Object.prototype", "__proto__=1"],
])("a query with %s is a 400", async (_name, query) => {
  const head = [HOST, `Authorization: Bearer ${token}`, CLOSE];
  expectProblem(
    await send(request(`GET /v1/credentials?${query} HTTP/1.1`, ...head)),
    400,
    "INVALID_REQUEST",
  );
});

test.each(["gzip", "deflate, gzip", "br", "x"])("Content-Encoding %s is a 415", async (encoding) => {
  const response = await fetch(`${api.adminUrl}/admin/v1/tenants`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "content-encoding": encoding,
      authorization: `Bearer ${api.operatorToken}`,
    },
    body: "{}",
  });
  expect(response.status).toBe(415);
  expect(await response.json()).toMatchObject({ code: "UNSUPPORTED_MEDIA_TYPE" });
});

describe.concurrent("a slow client is cut off", () => {
  const start = request(
    "POST /v1/auth/token HTTP/1.1",
    HOST,
    "Content-Type: application/json",
    "Content-Length: 100",
  );

  test("incomplete headers are a 408 after 5 seconds", async ({ expect: check }) => {
    const { status, body } = parse(await exchange(api.publicPort, "GET /healthz HTTP/1.1\r\nHost: a\r\n"));
    check({ status, code: body["code"] }).toEqual({ status: 408, code: "REQUEST_TIMEOUT" });
  });

  test("an incomplete body is a 408 after 10 seconds", async ({ expect: check }) => {
    const { status, body } = parse(await exchange(api.publicPort, `${start}{"grant`));
    check({ status, code: body["code"] }).toEqual({ status: 408, code: "REQUEST_TIMEOUT" });
  });
});
