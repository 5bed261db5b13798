/**
 * Running requests through the edge end with their connection and their token, and one caller cannot occupy them all.
 */
import { once } from "node:events";
import {
  type ClientRequest,
  type IncomingMessage,
  request as httpRequest,
  type ServerResponse,
} from "node:http";
import { connect, type Socket } from "node:net";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, bearer, provision, type Provisioned } from "#test/support/factories.ts";
import { call } from "#test/support/https-request.ts";

/** Requests per tenant, or per address for requests without a tenant. */
const SHARE = 256;
/** More than the sockets on the path can buffer. */
const UNREAD = Buffer.alloc(8_000_000);

const api = useSharedApi();
const edge = useTestEdge(api, {
  routes: [{ method: ["GET", "POST"], path: "/v1/files/*", scope: "files:read", upstream: "data" }],
});

let client: Provisioned;
let token: string;
let sockets: Socket[] = [];
beforeAll(async () => {
  client = await provision(api, {
    scopes: ["files:read", "credentials:revoke"],
    environment: "development",
  });
  token = await accessToken(api, client);
});
afterEach(() => {
  edge.upstream.behave(undefined);
  sockets.forEach((socket) => socket.destroy());
  sockets = [];
});

/** Sends a request without reading the answer. */
function send(text: string, localAddress = "127.0.0.1"): Socket {
  const socket = connect({ port: edge.port, host: "127.0.0.1", localAddress }).pause();
  socket.on("error", () => undefined);
  socket.write(text);
  sockets.push(socket);
  return socket;
}

const get = (path: string, access = token): string =>
  `GET ${path} HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer ${access}\r\n\r\n`;
const TOKEN_REQUEST =
  "POST /v1/auth/token HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{";

test("pipelined requests end at the upstream with their connection, including those queued behind another", async () => {
  const begun: ServerResponse[] = [];
  let ended = 0;
  edge.upstream.behave((_request, response) => {
    begun.push(response);
    response.once("close", () => (ended += 1));
  });
  // One of them may be rejected, while the edge has no news of revocations.
  const socket = await eventually(async () => {
    begun.length = 0;
    const tried = send(get("/v1/files/a").repeat(5));
    const all = await eventually(() => begun.length === 5, "all requests", 5_000).catch(() => false);
    return all && tried;
  }, "all requests at the upstream");
  // Not before all have begun: a connection with unread answers starts no further request.
  begun.forEach((response) => response.write(UNREAD));
  await eventually(() => begun.every(({ writableNeedDrain }) => writableNeedDrain), "answers that wait");
  ended = 0;
  socket.destroy();
  await eventually(() => ended === 5, "the end of all requests");
});

describe("a caller that occupies its full share", () => {
  test("without a token gets 429 beyond it and leaves the api to other addresses", async () => {
    for (let opened = 0; opened < SHARE; opened += 1) {
      send(TOKEN_REQUEST);
    }
    const here = { port: edge.port };
    const refused = await eventually(async () => {
      const answer = await call("/.well-known/jwks.json", here);
      return answer.status === 429 ? answer : undefined;
    }, "the share to be used up");
    expect(refused).toMatchObject({ headers: { "retry-after": "1" }, body: { code: "RATE_LIMITED" } });
    const elsewhere = { port: edge.port, localAddress: "127.0.0.2" };
    expect(await call("/.well-known/jwks.json", elsewhere)).toMatchObject({ status: 200 });
    sockets.forEach((socket) => socket.destroy());
    await eventually(async () => (await call("/.well-known/jwks.json", here)).status === 200, "a free place");
  });

  test("with a token gets 429 beyond it and leaves the upstream to other tenants", async () => {
    // Other requests hang.
    edge.upstream.behave((request, response) => {
      if (request.url === "/v1/files/quick") {
        response.end("quick");
      }
    });
    const quick = async (access: string) =>
      await call("/v1/files/quick", { port: edge.port, headers: bearer(access) });
    for (let opened = 0; opened < SHARE; opened += 1) {
      send(get("/v1/files/slow"));
    }
    const refused = await eventually(async () => {
      const answer = await quick(token);
      if (answer.status === 429) {
        return answer;
      }
      // One of them was rejected, for instance while the edge had no news of revocations.
      send(get("/v1/files/slow"));
      return undefined;
    }, "the share to be used up");
    expect(refused).toMatchObject({ headers: { "retry-after": "1" }, body: { code: "RATE_LIMITED" } });
    const other = await provision(api, { scopes: ["files:read"], environment: "development" });
    const theirs = await accessToken(api, other);
    const answer = await eventually(async () => {
      const asked = await quick(theirs);
      return asked.status === 503 ? undefined : asked;
    }, "an answer to the other tenant");
    expect(answer).toMatchObject({ status: 200, text: "quick" });
    sockets.forEach((socket) => socket.destroy());
    await eventually(async () => (await quick(token)).status === 200, "a free place");
  });
});

describe("a token that is revoked", () => {
  let victim: Provisioned;
  let theirs: string;
  beforeAll(async () => {
    victim = await provision(api, {
      scopes: ["files:read", "credentials:revoke"],
      environment: "development",
    });
    theirs = await accessToken(api, victim);
  });

  function open(method: string): ClientRequest {
    return httpRequest({
      port: edge.port,
      host: "127.0.0.1",
      path: "/v1/files/a",
      method,
      headers: bearer(theirs),
      agent: false,
    });
  }

  test("ends its running download and its pending request, and no others", async () => {
    edge.upstream.behave((request, response) => {
      if (request.method === "GET") {
        response.write("the first of it");
      }
    });
    const download = open("GET").end();
    const [reading] = (await once(download, "response")) as [IncomingMessage];
    await once(reading, "data");
    const others = httpRequest({
      port: edge.port,
      host: "127.0.0.1",
      path: "/v1/files/a",
      headers: bearer(token),
      agent: false,
    }).end();
    const [theirReading] = (await once(others, "response")) as [IncomingMessage];
    await once(theirReading, "data");
    const waiting = open("POST").end();
    await once(waiting, "finish");

    const broken = once(reading, "error");
    const answered = once(waiting, "response");
    const revoked = await api.request(`/v1/credentials/${victim.credentialId}/revoke`, {
      method: "POST",
      headers: bearer(theirs),
    });
    expect(revoked.status).toBe(200);
    const [error] = (await broken) as [NodeJS.ErrnoException];
    expect(error.code).toBe("ECONNRESET");
    const [answer] = (await answered) as [IncomingMessage];
    expect(answer.statusCode).toBe(401);
    expect(answer.headers["www-authenticate"]).toContain("invalid_token");
    expect(theirReading.destroyed).toBe(false);
    others.destroy();
  });
});
