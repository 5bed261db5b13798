/** How the client gets, keeps and renews access tokens, against a token endpoint on a real socket. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SignetClient, type SignetClientOptions } from "#lib/client/signet-client.ts";
import { connect } from "#lib/client/token-sources.ts";
import { type TestRuntime, testRuntime } from "#test/support/client-runtime.ts";
import { eventually } from "#test/support/eventually.ts";
import {
  CLIENT_ID,
  type RotatingServer,
  secretOf,
  startRotatingServer,
} from "#test/support/rotating-server.ts";

const MINUTE = 60_000;
const UNAVAILABLE = { kind: "answer", status: 503, body: { code: "UNAVAILABLE" } } as const;

let server: RotatingServer;
let runtime: TestRuntime;

beforeEach(async () => {
  server = await startRotatingServer();
  runtime = testRuntime();
});

afterEach(async () => {
  await server.close();
});

function options(more: Partial<SignetClientOptions> = {}): SignetClientOptions {
  return { baseUrl: server.url, clientId: CLIENT_ID, clientSecret: secretOf(1), ...runtime, ...more };
}

const client = (more: Partial<SignetClientOptions> = {}): SignetClient => new SignetClient(options(more));

describe("a token", () => {
  test("is requested once for 100 callers", async () => {
    const signet = client();
    const tokens = await Promise.all(Array.from({ length: 100 }, async () => await signet.accessToken()));
    expect(new Set(tokens.map(({ value }) => value))).toEqual(new Set(["token-1"]));
    expect(server.tokenRequests).toHaveLength(1);
  });

  test("is renewed before it expires, while callers use the present one", async () => {
    const signet = client();
    await signet.accessToken();
    // 0.7 + 0.5 × 0.15 of 15 minutes: at 11:37.5.
    runtime.advance(11.6 * MINUTE);
    expect((await signet.accessToken()).value).toBe("token-1");
    expect(server.tokenRequests).toHaveLength(1);
    runtime.advance(0.1 * MINUTE);
    const callers = Array.from({ length: 100 }, async () => (await signet.accessToken()).value);
    expect(new Set(await Promise.all(callers))).toEqual(new Set(["token-1"]));
    await eventually(async () => (await signet.accessToken()).value === "token-2", "the renewed token");
    expect(server.tokenRequests).toHaveLength(2);
  });

  test.each([
    [0, 0.7],
    [0.999_999, 0.85],
  ])("is renewed at a random moment (%d)", async (chance, part) => {
    runtime = testRuntime(chance);
    const signet = client();
    await signet.accessToken();
    runtime.advance(15 * MINUTE * part - 100);
    await signet.accessToken();
    expect(server.tokenRequests).toHaveLength(1);
    runtime.advance(200);
    await signet.accessToken();
    await eventually(() => server.tokenRequests.length === 2, "the renewal");
  });

  test("survives a failing token endpoint at its renewal, which is retried with pauses", async () => {
    const signet = client({ retry: { attempts: 1 } });
    await signet.accessToken();
    server.incidents.push(UNAVAILABLE, UNAVAILABLE);
    runtime.advance(12 * MINUTE);
    expect((await signet.accessToken()).value).toBe("token-1");
    await eventually(() => runtime.warnings.length === 1, "the warning");
    expect(runtime.warnings[0]).toMatchObject({ code: "REFRESH_FAILED", cause: { status: 503 } });
    await signet.accessToken();
    expect(server.tokenRequests).toHaveLength(2);
    runtime.advance(10_000);
    await signet.accessToken();
    await eventually(() => runtime.warnings.length === 2, "the second warning");
  });

  test("is not returned in the last half minute of its life", async () => {
    const signet = client();
    const { expiresAt } = await signet.accessToken();
    runtime.advance(expiresAt - runtime.clock.now() - 30_000);
    expect((await signet.accessToken()).value).toBe("token-2");
  });

  test("counts its life from before the request, so a slow response does not extend it", async () => {
    const asked = runtime.clock.now();
    const signet = client({
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        runtime.advance(20_000);
        return response;
      },
    });
    expect((await signet.accessToken()).expiresAt).toBe(asked + 15 * MINUTE);
  });

  test("exists once per set of scopes, all with one credential", async () => {
    const { sourceFor } = connect(options());
    const [narrow, wide] = [sourceFor(["webhooks:read", "events:publish"]), sourceFor([])];
    expect((await narrow.token()).scope).toBe("webhooks:read events:publish");
    expect((await wide.token()).value).not.toBe((await narrow.token()).value);
    expect(server.tokenRequests.map(({ body }) => body["scope"])).toEqual([
      "webhooks:read events:publish",
      undefined,
    ]);
  });
});

describe("a token request that fails", () => {
  test("is retried after a growing random pause", async () => {
    server.incidents.push(UNAVAILABLE, { kind: "lost" }, { kind: "answer", status: 502, body: "" });
    expect((await client().accessToken()).value).toBe("token-2");
    expect(runtime.sleeps).toEqual([125, 250, 500]);
  });

  test.each([429, 503])("with %d waits as long as Retry-After says", async (status) => {
    server.incidents.push({ kind: "answer", status, headers: { "retry-after": "7" } });
    await client().accessToken();
    expect(runtime.sleeps).toEqual([7_125]);
  });

  test("reads a Retry-After that is a date", async () => {
    const date = new Date(runtime.clock.now() + 3_000).toUTCString();
    server.incidents.push({ kind: "answer", status: 503, headers: { "retry-after": date } });
    await client().accessToken();
    expect(runtime.sleeps).toEqual([3_125]);
  });

  test("does not wait longer than a caller would, and reports the requested wait", async () => {
    server.incidents.push({ kind: "answer", status: 429, headers: { "retry-after": "3600" } });
    await expect(client().accessToken()).rejects.toMatchObject({ status: 429, retryAfterMs: 3_600_000 });
    expect(server.tokenRequests).toHaveLength(1);
  });

  test("gives up after its attempts", async () => {
    server.incidents.push(...Array.from({ length: 4 }, () => UNAVAILABLE));
    await expect(client().accessToken()).rejects.toMatchObject({ status: 503, code: "UNAVAILABLE" });
    expect(server.tokenRequests).toHaveLength(4);
    expect((await client().accessToken()).value).toBe("token-1");
  });

  test("with a permanent error is not retried", async () => {
    server.incidents.push({
      kind: "answer",
      status: 400,
      body: { error: "invalid_scope", code: "INVALID_SCOPE", request_id: "req_1" },
    });
    await expect(client().accessToken()).rejects.toMatchObject({
      name: "SignetApiError",
      status: 400,
      code: "INVALID_SCOPE",
      requestId: "req_1",
    });
    expect(server.tokenRequests).toHaveLength(1);
  });

  test("with a rejected credential is held back, longer each time, for all callers", async () => {
    server.rotation.valid.clear();
    const signet = client();
    const ask = async () => await signet.accessToken().catch((error: Error) => error.message);
    const refusal = await ask();
    expect(refusal).toContain("INVALID_CLIENT");
    expect(await ask()).toBe(refusal);
    expect(server.tokenRequests).toHaveLength(1);
    runtime.advance(5_000);
    await ask();
    runtime.advance(5_000);
    await ask();
    expect(server.tokenRequests).toHaveLength(2);
    server.rotation.valid.add(1);
    runtime.advance(5_000);
    expect(await ask()).toMatchObject({ value: "token-1" });
  });

  test.each([
    ["no token", { token_type: "Bearer", expires_in: 900 }],
    ["a token that fits in no header", { access_token: "a\nb", expires_in: 900 }],
    ["no expiry", { access_token: "abc" }],
    ["a list", []],
  ])("that returns %s is an invalid response", async (_name, body) => {
    server.incidents.push({ kind: "answer", status: 200, body });
    await expect(client().accessToken()).rejects.toMatchObject({ code: "INVALID_ANSWER" });
  });
});

describe("a connection", () => {
  test.each([
    ["http://api.example.com", /plain http/],
    ["ftp://api.example.com", /https/],
    ["https://user:pass@api.example.com", /nothing else/],
    ["https://api.example.com/?a=b", /nothing else/],
  ])("to %s is rejected before anything is sent", (baseUrl, message) => {
    expect(() => client({ baseUrl })).toThrow(message);
  });

  test("does not follow a redirect with the secret", async () => {
    server.incidents.push({ kind: "answer", status: 307, headers: { location: `${server.url}/elsewhere` } });
    await expect(client().accessToken()).rejects.toMatchObject({ status: 307 });
    expect(server.requests).toHaveLength(1);
  });

  test("without a client id and without a store is rejected", () => {
    expect(() => new SignetClient({ baseUrl: server.url })).toThrow(TypeError);
  });
});
