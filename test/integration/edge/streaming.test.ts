/** Bodies stream in both directions, and stalls, failures and oversized bodies are handled. */
import { request as httpRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, beforeAll, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, bearer, provision } from "#test/support/factories.ts";
import { call } from "#test/support/https-request.ts";

const api = useSharedApi();
const routes = [
  { method: "GET", path: "/v1/files/*", scope: "files:read", upstream: "data" },
  { method: "POST", path: "/v1/files/*", scope: "files:read", upstream: "data" },
  { method: "POST", path: "/v1/small", scope: "files:read", upstream: "data", body_limit_bytes: 10 },
];
const edge = useTestEdge(api, { routes });
const impatient = useTestEdge(api, {
  environment: () => ({
    SIGNET_EDGE_HEADERS_TIMEOUT_MS: "1500",
    SIGNET_EDGE_IDLE_TIMEOUT_MS: "1500",
  }),
  routes,
});

let token: string;
beforeAll(async () => {
  const client = await provision(api, { scopes: ["files:read"], environment: "development" });
  token = await accessToken(api, client);
});
afterEach(() => {
  edge.upstream.behave(undefined);
  impatient.upstream.behave(undefined);
});

function open(method: string, path: string, at = edge): ClientRequest {
  return httpRequest({
    port: at.port,
    host: "127.0.0.1",
    path,
    method,
    headers: bearer(token),
    agent: false,
  });
}

const answered = async (request: ClientRequest): Promise<IncomingMessage> =>
  ((await once(request, "response")) as [IncomingMessage])[0];

async function chunkOf(stream: IncomingMessage): Promise<string> {
  return String(((await once(stream, "data")) as [Buffer])[0]);
}

test("an upload arrives piece by piece, before it ends", async () => {
  const pieces: string[] = [];
  edge.upstream.behave((request, response) => {
    request.on("data", (piece: Buffer) => pieces.push(piece.toString()));
    request.on("end", () => response.end(pieces.join("")));
  });
  const upload = open("POST", "/v1/files/a");
  upload.write("one");
  await eventually(() => pieces.length === 1, "the first piece");
  upload.write("two");
  await eventually(() => pieces.length === 2, "the second piece");
  upload.end();
  expect(await chunkOf(await answered(upload))).toBe("onetwo");
});

test("a download arrives piece by piece, before it ends", async () => {
  let send: ((piece: string | undefined) => void) | undefined;
  edge.upstream.behave((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.flushHeaders();
    send = (piece) => void (piece === undefined ? response.end() : response.write(piece));
  });
  const download = open("GET", "/v1/files/a");
  download.end();
  const answer = await answered(download);
  for (const piece of ["one", "two"]) {
    const next = chunkOf(answer);
    send?.(piece);
    expect(await next).toBe(piece);
  }
  send?.(undefined);
  await once(answer.resume(), "end");
});

test("an upstream that dies within its answer aborts the client's, too", async () => {
  edge.upstream.behave((request, response) => {
    response.writeHead(200, { "content-length": "100" });
    response.write("some");
    setImmediate(() => request.socket.destroy());
  });
  const download = open("GET", "/v1/files/a");
  download.end();
  const answer = await answered(download);
  answer.resume();
  const [error] = (await once(answer, "error")) as [NodeJS.ErrnoException];
  expect(error.code).toBe("ECONNRESET");
});

test.each([
  ["closes the connection", (socket: { destroy(): void }) => socket.destroy()],
  ["does not answer", () => undefined],
])("an upstream that %s causes a 503, and the request is not repeated", async (_name, act) => {
  let requests = 0;
  impatient.upstream.behave((request) => {
    requests += 1;
    act(request.socket);
  });
  const answer = await call("/v1/files/a", { port: impatient.port, headers: bearer(token) });
  expect(answer).toMatchObject({
    status: 503,
    headers: { "retry-after": "1", "content-type": "application/problem+json" },
    body: { code: "UNAVAILABLE" },
  });
  expect(requests).toBe(1);
});

const HEADERS = "ETag: broken\r\nSet-Cookie: a=b\r\nContent-Encoding: gzip\r\n";

test.each([
  ["with an invalid status", `777 Odd\r\n${HEADERS}Content-Length: 2\r\n\r\nab`],
  ["that ends after its headers", `200 OK\r\n${HEADERS}Content-Length: 10\r\n\r\n`],
  ["with an invalid first chunk", `200 OK\r\n${HEADERS}Transfer-Encoding: chunked\r\n\r\nZZ\r\n`],
])("an answer %s becomes a plain 503 or breaks off", async (_name, answer) => {
  edge.upstream.behave(({ socket }) => socket.end(`HTTP/1.1 ${answer}`));
  // Many at once, so that headers and end are often read together.
  const answers = await Promise.allSettled(
    Array.from(
      { length: 100 },
      async () => await call("/v1/files/a", { port: edge.port, headers: bearer(token) }),
    ),
  );
  const broken = answers
    .filter((found) => found.status === "rejected")
    .map(({ reason }) => reason as unknown);
  expect(broken).toEqual(broken.map(() => expect.objectContaining({ code: "ECONNRESET" }) as unknown));
  for (const { headers, ...found } of answers.flatMap((each) =>
    each.status === "fulfilled" ? each.value : [],
  )) {
    expect(found).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
    expect(headers).toMatchObject({ "retry-after": "1", "content-type": "application/problem+json" });
    for (const name of ["etag", "set-cookie", "content-encoding", "transfer-encoding"]) {
      expect(headers).not.toHaveProperty(name);
    }
  }
});

test("an upstream's 503 is forwarded once", async () => {
  let requests = 0;
  edge.upstream.behave((_request, response) => {
    requests += 1;
    response.writeHead(503, { "retry-after": "7" }).end("busy");
  });
  const answer = await call("/v1/files/a", { port: edge.port, headers: bearer(token) });
  expect(answer).toMatchObject({ status: 503, text: "busy", headers: { "retry-after": "7" } });
  expect(requests).toBe(1);
});

test("an upstream whose answer stalls is disconnected", async () => {
  impatient.upstream.behave((_request, response) => {
    response.writeHead(200);
    response.write("some");
  });
  const download = open("GET", "/v1/files/a", impatient);
  download.end();
  const answer = await answered(download);
  answer.resume();
  await once(answer, "error");
});

test.each(["while it waits", "while it reads"])(
  "a client that leaves %s ends its request at the upstream",
  async (when) => {
    let begun = false;
    let closed = false;
    edge.upstream.behave((request, response) => {
      begun = true;
      request.socket.once("close", () => (closed = true));
      if (when === "while it reads") {
        response.write("some");
      }
    });
    const download = open("GET", "/v1/files/a");
    download.on("error", () => undefined);
    download.end();
    if (when === "while it reads") {
      const answer = await answered(download);
      answer.on("error", () => undefined);
      await chunkOf(answer);
    } else {
      await eventually(() => begun, "the request at the upstream");
    }
    download.destroy();
    await eventually(() => closed, "the upstream's connection to close");
  },
);

test("a body beyond the limit is rejected, by its length or while it is read", async () => {
  let arrived = "";
  edge.upstream.behave((request, response) => {
    request.on("data", (piece: Buffer) => (arrived += piece.toString()));
    request.on("end", () => response.end());
    request.on("error", () => undefined);
  });
  const headers = bearer(token);
  expect(await call("/v1/small", { port: edge.port, headers, json: "0123456789" })).toMatchObject({
    status: 413,
    body: { code: "PAYLOAD_TOO_LARGE" },
  });
  expect(arrived).toBe("");
  const upload = open("POST", "/v1/small");
  upload.on("error", () => undefined);
  upload.write("01234");
  upload.write("567890");
  const answer = await answered(upload);
  expect(answer.statusCode).toBe(413);
  upload.destroy();
});

test("a client that stops within its upload is disconnected, and so is its request at the upstream", async () => {
  let aborted = false;
  impatient.upstream.behave((request) => {
    request.on("error", () => (aborted = true));
    request.resume();
  });
  const socket = connect(impatient.port, "127.0.0.1");
  socket.write(
    `POST /v1/files/a HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer ${token}\r\nContent-Length: 10\r\n\r\nabc`,
  );
  socket.resume();
  await once(socket, "close");
  await eventually(() => aborted, "the upstream's request to break off");
});
