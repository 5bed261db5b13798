import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { AddressPolicy } from "#webhooks/sending/address-policy.ts";
import type { HttpSender } from "#webhooks/sending/http-sender.ts";
import { ReceiverAccess, type ReceiverEndpoint } from "#webhooks/sending/receiver-access.ts";
import type { Authentication } from "#webhooks/sending/authentication.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { type Behaviour, type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import { type Authority, createAuthority, type KeyPair } from "./http-certificates.ts";
import { createTestSender, requestTo } from "./http-fixtures.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

/** Stands in for the database: settings of endpoints, by id. */
interface Stored {
  version: number;
  headers?: Readonly<Record<string, string>>;
  authentication?: Authentication;
}

let stored: Map<string, Stored>;
let loads: number;
let clockMs: number;
let http: HttpSender;
let access: ReceiverAccess;
let receiver: Receiver;
let tokens: Receiver;
let authority: Authority;
let pair: KeyPair;

beforeAll(() => {
  authority = createAuthority();
  pair = authority.issue("IP:127.0.0.1");
  return () => {
    authority.remove();
  };
});
beforeEach(async () => {
  stored = new Map();
  loads = 0;
  clockMs = Date.now();
  const clock = { now: () => clockMs };
  http = createTestSender({ clock, extraCertificateAuthorities: [authority.cert] });
  access = new ReceiverAccess({
    timers: machineTimers,
    http,
    clock,
    load: async (_tenant, id) => {
      loads += 1;
      const row = stored.get(id);
      return row === undefined
        ? undefined
        : {
            version: row.version,
            headers: row.headers === undefined ? null : JSON.stringify(row.headers),
            authentication:
              row.authentication === undefined
                ? null
                : { version: row.version, sealed: JSON.stringify(row.authentication) },
          };
    },
    open: async (_endpoint, _aad, sealed) => sealed,
  });
  receiver = await startReceiver();
  tokens = await startReceiver();
});
afterEach(async () => {
  await http.close();
  await receiver.close();
  await tokens.close();
});

function endpoint(settings: Omit<Stored, "version">, id: string = randomUUID()): ReceiverEndpoint {
  const version = (stored.get(id)?.version ?? 0) + 1;
  stored.set(id, { ...settings, version });
  return { endpoint_id: id, tenant_id: "ten_1", data_key: "", request_version: version };
}

function tokenAnswer(token: string, members: object = {}): Behaviour {
  const body = JSON.stringify({ access_token: token, token_type: "Bearer", expires_in: 3_600, ...members });
  return { kind: "answer", body };
}

function oauth(members: object = {}): { authentication: Authentication } {
  return {
    authentication: {
      type: "oauth2_client_credentials",
      token_url: `${tokens.url}/token`,
      client_id: "client:ü",
      client_secret: "s ecret",
      ...members,
    },
  };
}

const authorizations = (): (string | undefined)[] =>
  receiver.requests.map(({ headers }) => headers.authorization);

describe("a tenant's own headers", () => {
  it("are added to ours without replacing any, and are loaded once per version", async () => {
    const to = endpoint({ headers: { "X-Environment": "staging", "content-type": "text/plain" } });
    const request = requestTo(receiver.url, { headers: { "Content-Type": "application/json" } });
    await access.send(request, to);
    await access.send(request, to);
    expect(loads).toBe(1);
    for (const { headers } of receiver.requests) {
      expect(headers).toMatchObject({ "x-environment": "staging" });
    }
    const changed = endpoint({ headers: { "X-Environment": "live" } }, to.endpoint_id);
    await access.send(request, changed);
    // A request that was loaded before the change uses the endpoint's current settings.
    await access.send(request, to);
    expect(receiver.requests.map(({ headers }) => headers["x-environment"])).toEqual([
      "staging",
      "staging",
      "live",
      "live",
    ]);
    expect(loads).toBe(2);
  });
});

describe("a secret header", () => {
  it("is sent, and replaces a header of the same name in any case", async () => {
    const to = endpoint({
      headers: { "x-api-key": "old", "X-B": "b" },
      authentication: { type: "header", name: "X-API-Key", value: "canary" },
    });
    expect(await access.send(requestTo(receiver.url), to)).toMatchObject({ status: 200 });
    const raw = receiver.requests[0]?.rawHeaders ?? [];
    expect(raw.filter((_, index) => raw[index - 1]?.toLowerCase() === "x-api-key")).toEqual(["canary"]);
    expect(receiver.requests[0]?.headers).toMatchObject({ "x-b": "b" });
  });
});

describe("OAuth 2.0 client credentials", () => {
  it("obtain a bearer token once, however many requests need it at once", async () => {
    tokens.answer([tokenAnswer("t1")]);
    const to = endpoint(oauth({ scope: "a b" }));
    await Promise.all(Array.from({ length: 20 }, () => access.send(requestTo(receiver.url), to)));
    expect(new Set(authorizations())).toEqual(new Set(["Bearer t1"]));
    expect(tokens.requests).toHaveLength(1);
    expect(tokens.requests[0]).toMatchObject({ method: "POST", path: "/token" });
    expect(tokens.requests[0]?.headers).toMatchObject({
      authorization: `Basic ${Buffer.from("client%3A%C3%BC:s+ecret").toString("base64")}`,
      "content-type": "application/x-www-form-urlencoded",
    });
    expect(tokens.requests[0]?.rawBody.toString()).toBe("grant_type=client_credentials&scope=a+b");
  });

  it("replace a token shortly before it expires", async () => {
    tokens.answer([tokenAnswer("t1"), tokenAnswer("t2")]);
    const to = endpoint(oauth());
    const send = async (): Promise<unknown> => await access.send(requestTo(receiver.url), to);
    await send();
    clockMs += 3_539_000;
    await send();
    clockMs += 1_000;
    await send();
    expect(authorizations()).toEqual(["Bearer t1", "Bearer t1", "Bearer t2"]);
  });

  it("replace a token that the receiver rejects, once, within the same attempt", async () => {
    tokens.answer([tokenAnswer("t1"), tokenAnswer("t2"), tokenAnswer("t3")]);
    const to = endpoint(oauth());
    let good = "Bearer t1";
    receiver.answer(({ headers }) => ({
      kind: "answer",
      status: headers.authorization === good ? 200 : 401,
    }));
    const send = async (): Promise<unknown> => await access.send(requestTo(receiver.url), to);
    expect(await send()).toMatchObject({ status: 200, error: null });
    good = "Bearer t2";
    expect(await send()).toMatchObject({ status: 200, error: null });
    expect(authorizations()).toEqual(["Bearer t1", "Bearer t1", "Bearer t2"]);
    good = "none";
    expect(await send()).toMatchObject({ status: 401, error: "status" });
    expect(authorizations().slice(3)).toEqual(["Bearer t2", "Bearer t3"]);
    // The rejection of a new token does not cause another token request at once.
    expect(await send()).toMatchObject({ status: 401 });
    expect(tokens.requests).toHaveLength(4);
    expect(receiver.requests).toHaveLength(6);
  });

  it("repeat the request unchanged: signature, time and attempt are those of the first one", async () => {
    tokens.answer([tokenAnswer("t1"), tokenAnswer("t2")]);
    const to = endpoint(oauth());
    const headers = { "X-Service-Timestamp": "1763650000", "webhook-signature": "v1,AAAA" };
    const request = requestTo(receiver.url, { headers, body: Buffer.from('{"attempt":3}') });
    await access.send(request, to);
    receiver.answer([{ kind: "answer", status: 401 }, { kind: "answer" }]);
    expect(await access.send(request, to)).toMatchObject({ status: 200 });
    const [, refused, again] = receiver.requests;
    expect(again?.rawBody).toEqual(refused?.rawBody);
    expect({ ...again?.headers, authorization: "" }).toEqual({ ...refused?.headers, authorization: "" });
  });

  it("keep the receiver's 401 if token_url has no new token", async () => {
    tokens.answer([tokenAnswer("t1"), { kind: "answer", status: 503 }]);
    const to = endpoint(oauth());
    await access.send(requestTo(receiver.url), to);
    receiver.answer([{ kind: "answer", status: 401, body: "expired" }]);
    expect(await access.send(requestTo(receiver.url), to)).toMatchObject({
      status: 401,
      error: "status",
      responseBody: "expired",
    });
    expect(receiver.requests).toHaveLength(2);
  });

  it("end the attempt by its deadline, with the receiver's 401, even if token_url hangs", async () => {
    await withoutPause(async () => {
      tokens.answer([tokenAnswer("t1"), { kind: "hang" }]);
      const to = endpoint(oauth());
      await access.send(requestTo(receiver.url), to);
      receiver.answer([{ kind: "answer", status: 401 }]);
      const begun = performance.now();
      const result = await access.send(requestTo(receiver.url, { deadlineMs: 2_000 }), to);
      expect(result).toMatchObject({ status: 401, error: "status" });
      // It ends after one second. The request to token_url alone would take four.
      expect(performance.now() - begun).toBeLessThan(2_000);
    });
  });

  it("are not requested again with less than a second left, and the delivery is not repeated", async () => {
    tokens.answer([tokenAnswer("t1"), tokenAnswer("t2")]);
    const to = endpoint(oauth());
    await access.send(requestTo(receiver.url), to);
    receiver.answer(() => {
      clockMs += 9_500;
      return { kind: "answer", status: 401 };
    });
    const late = requestTo(receiver.url, { deadlineMs: 10_000 });
    expect(await access.send(late, to)).toMatchObject({ status: 401, durationMs: 9_500 });
    expect(receiver.requests).toHaveLength(2);
    expect(tokens.requests).toHaveLength(1);
    // The next attempt begins with a new token.
    receiver.answer([{ kind: "answer" }]);
    expect(await access.send(late, to)).toMatchObject({ status: 200 });
    expect(authorizations().at(-1)).toBe("Bearer t2");
  });

  const failures: readonly (readonly [string, Behaviour, string])[] = [
    ["refuses the client", { kind: "answer", status: 401, body: '{"error":"invalid_client"}' }, "status 401"],
    ["redirects", { kind: "redirect", location: "http://127.0.0.1:1/" }, "status 302"],
    ["answers without JSON", { kind: "answer", body: "<html>" }, "not JSON"],
    ["answers null", { kind: "answer", body: "null" }, "no access_token"],
    ["answers too much", { kind: "answer", body: `{"x":"${"x".repeat(20_000)}"}` }, "not JSON"],
    ["issues a token that no header can carry", tokenAnswer("a\r\nX: y"), "no access_token"],
    ["issues a token of another type", tokenAnswer("t", { token_type: "mac" }), "no bearer token"],
    ["hangs up", { kind: "close" }, "aborted"],
  ];
  it.each(failures)("fail the attempt if the token endpoint %s", async (_what, behaviour, problem) => {
    tokens.answer([behaviour]);
    const to = endpoint(oauth());
    const result = await access.send(requestTo(receiver.url), to);
    expect(result).toMatchObject({ status: null, error: "authentication" });
    expect(result.responseBody).toContain(problem);
    expect(result.responseBody).not.toMatch(/127\.|s ecret|invalid_client/);
    expect(receiver.connections).toBe(0);
    // Further attempts within a second send no token request; after it, they succeed.
    tokens.answer([tokenAnswer("t1")]);
    tokens.clear();
    expect(await access.send(requestTo(receiver.url), to)).toMatchObject({ error: "authentication" });
    expect(tokens.requests).toHaveLength(0);
    clockMs += 1_000;
    expect(await access.send(requestTo(receiver.url), to)).toMatchObject({ status: 200 });
  });

  it("are never requested at an address that the policy forbids", async () => {
    await http.close();
    const policy = new AddressPolicy({
      allowedCidrs: ["127.0.0.2/32"],
      allowHttp: true,
      ownListeners: [],
    });
    http = createTestSender({ policy, resolver: async () => ["127.0.0.1"] });
    const tokenUrl = `http://tokens.example.com:${tokens.port}/`;
    stored.set("ep", { version: 1, ...oauth({ token_url: tokenUrl }) });
    const guarded = new ReceiverAccess({
      timers: machineTimers,
      http,
      clock: { now: () => clockMs },
      load: async () => ({
        version: 1,
        headers: null,
        authentication: { version: 1, sealed: JSON.stringify(stored.get("ep")?.authentication) },
      }),
      open: async (_endpoint, _aad, sealed) => sealed,
    });
    const result = await guarded.send(requestTo(receiver.url), {
      endpoint_id: "ep",
      tenant_id: "ten_1",
      data_key: "",
      request_version: 1,
    });
    expect(result).toMatchObject({ error: "authentication", responseBody: "token_url: refused" });
    expect(tokens.connections).toBe(0);
  });
});

describe("a client certificate", () => {
  it("is presented only on its endpoint's connections, which close when it is replaced", async () => {
    const seen: { readonly path: string; readonly name: string | undefined; readonly port: number }[] = [];
    const server = createServer(
      { ...pair, requestCert: true, rejectUnauthorized: false },
      (request, response) => {
        const socket = request.socket as TLSSocket;
        const name = socket.getPeerCertificate().subject?.CN as string | undefined;
        seen.push({ path: request.url ?? "", name, port: socket.remotePort ?? 0 });
        request.resume().on("end", () => response.end("ok"));
      },
    );
    server.keepAliveTimeout = 60_000;
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const identity = (): { authentication: Authentication } => {
      const { cert, key } = authority.issue("DNS:sender.example.com");
      return { authentication: { type: "client_certificate", certificate: cert, private_key: key } };
    };
    const first = endpoint(identity());
    const second = endpoint(identity());
    expect(await access.send(requestTo(`${url}/first`), first)).toMatchObject({ status: 200 });
    expect(await access.send(requestTo(`${url}/second`), second)).toMatchObject({ status: 200 });
    expect(await http.send(requestTo(`${url}/none`))).toMatchObject({ status: 200 });
    expect(await access.send(requestTo(`${url}/first`), first)).toMatchObject({ status: 200 });
    const ports = (path: string): Set<number> =>
      new Set(seen.filter((request) => request.path === path).map(({ port }) => port));
    expect(ports("/first").size).toBe(1);
    expect(new Set([...ports("/first"), ...ports("/second"), ...ports("/none")]).size).toBe(3);
    expect(seen.map(({ path, name }) => [path, name])).toEqual([
      ["/first", "receiver"],
      ["/second", "receiver"],
      ["/none", undefined],
      ["/first", "receiver"],
    ]);
    expect(http.statistics().idle).toBe(3);
    const changed = endpoint(identity(), first.endpoint_id);
    expect(await access.send(requestTo(`${url}/changed`), changed)).toMatchObject({ status: 200 });
    expect(http.statistics().idle).toBe(3);
    expect(ports("/first").has([...ports("/changed")][0] ?? 0)).toBe(false);
    server.closeAllConnections();
    server.close();
  });
});
