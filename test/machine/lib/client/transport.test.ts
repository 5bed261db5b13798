/** API calls carry a token, are retried where that is safe, and never show a secret in an error. */
import { inspect } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SignetApiError } from "#lib/client/errors.ts";
import { SignetClient, type SignetClientOptions } from "#lib/client/signet-client.ts";
import { type TestRuntime, testRuntime } from "#test/support/client-runtime.ts";
import {
  CLIENT_ID,
  type RotatingServer,
  secretOf,
  startRotatingServer,
} from "#test/support/rotating-server.ts";

const EVENT = { type: "inference.completed", data: { run: 7 } };
const ENDPOINT = { url: "https://example.com/hook", events: ["*"] };

let server: RotatingServer;
let runtime: TestRuntime;
let signet: SignetClient;

function client(more: Partial<SignetClientOptions> = {}): SignetClient {
  return new SignetClient({
    baseUrl: server.url,
    clientId: CLIENT_ID,
    clientSecret: secretOf(1),
    ...runtime,
    ...more,
  });
}

beforeEach(async () => {
  server = await startRotatingServer();
  runtime = testRuntime();
  signet = client();
  await signet.accessToken();
});

afterEach(async () => {
  await server.close();
});

const calls = () => server.requests.filter(({ path }) => path !== "/v1/auth/token");
const keys = () => calls().map(({ headers }) => headers["idempotency-key"]);

describe("a POST", () => {
  test.each([
    ["publish", async () => await signet.events.publish(EVENT)],
    ["publishBatch", async () => await signet.events.publishBatch([EVENT])],
    ["create", async () => await signet.endpoints.create(ENDPOINT)],
  ])("of %s keeps its generated key over a lost response and a 503", async (_name, call) => {
    server.incidents.push({ kind: "lost" }, { kind: "answer", status: 503, headers: { "retry-after": "1" } });
    await call();
    const [first, ...others] = keys();
    expect(first).toMatch(/^[\x21-\x7e]{16,255}$/);
    expect(others).toEqual([first, first]);
  });

  test("of another event has another key, and a caller's key is used unchanged", async () => {
    await signet.events.publish(EVENT);
    await signet.events.publish(EVENT);
    await signet.events.publish(EVENT, { idempotencyKey: "mine" });
    const [first, second, third] = keys();
    expect(first).not.toBe(second);
    expect(third).toBe("mine");
  });

  test("without a key is retried after a 429, and not after a lost response", async () => {
    server.incidents.push({ kind: "answer", status: 429, headers: { "retry-after": "1" } });
    await signet.deadLetters.replay("dlv_1");
    expect(calls()).toHaveLength(2);
    server.incidents.push({ kind: "lost" });
    await expect(signet.deadLetters.replay("dlv_1")).rejects.toMatchObject({ code: "CONNECTION" });
    expect(calls()).toHaveLength(3);
  });
});

describe("a 401", () => {
  test.each(["TOKEN_EXPIRED", "TOKEN_REVOKED", "CERT_BINDING_MISMATCH"])(
    "%s is fixed with one fresh token, however many calls get it",
    async (code) => {
      server.refusedTokens.set("token-1", code);
      await Promise.all(Array.from({ length: 20 }, async () => await signet.endpoints.get("ep_1")));
      expect(server.tokenRequests).toHaveLength(2);
      expect(calls()).toHaveLength(40);
    },
  );

  test("that a fresh token does not fix goes to the caller", async () => {
    server.refusedTokens.set("token-1", "TOKEN_REVOKED").set("token-2", "TOKEN_REVOKED");
    await expect(signet.endpoints.get("ep_1")).rejects.toMatchObject({ status: 401, code: "TOKEN_REVOKED" });
    expect(server.tokenRequests).toHaveLength(2);
  });

  test("for another reason requests no other token", async () => {
    server.refusedTokens.set("token-1", "CLIENT_CERT_REQUIRED");
    await expect(signet.endpoints.get("ep_1")).rejects.toMatchObject({ code: "CLIENT_CERT_REQUIRED" });
    expect(server.tokenRequests).toHaveLength(1);
  });
});

describe("a 421", () => {
  type Incident = (typeof server.incidents)[number];
  const twice = (incident: Incident): readonly Incident[] => [incident, incident];

  /** Answers of an API in another region; `fetch` itself repeats a request that gets 421, over another connection. */
  const misdirected = (base_url: string): readonly Incident[] =>
    twice({
      kind: "answer",
      status: 421,
      body: { code: "MISDIRECTED_REQUEST", detail: "Elsewhere.", base_url },
    });
  let other: RotatingServer;

  beforeEach(async () => {
    other = await startRotatingServer();
  });

  /** Uses a client that has a token and follows to these addresses. */
  async function follow(regionUrls: readonly string[]): Promise<void> {
    signet = client({ regionUrls, retry: { attempts: 1 } });
    await signet.accessToken();
  }

  afterEach(async () => {
    await other.close();
  });

  test("leads to the listed API that it names, for all further calls of its kind", async () => {
    await follow([`${other.url}/`]);
    server.incidents.push(...misdirected(other.url), ...misdirected(other.url));
    await Promise.all([signet.events.publish(EVENT), signet.events.publish(EVENT)]);
    await signet.events.publish(EVENT);
    expect(calls()).toHaveLength(4);
    expect(other.requests.map(({ path }) => path)).toEqual(Array(3).fill("/v1/events"));
  });

  test("sends no token to an address that the caller has not listed, and says what to list", async () => {
    await follow(["https://us.example.com"]);
    server.incidents.push(...misdirected(other.url));
    const error = await signet.events.publish(EVENT).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(SignetApiError);
    expect(error).toMatchObject({ status: 421, code: "MISDIRECTED_REQUEST" });
    expect(String(error)).toContain(
      `Elsewhere. The client sends no token to ${other.url}: add it to regionUrls`,
    );
    expect(other.requests).toEqual([]);
  });

  test("whose API does not answer is asked for again, because another may serve the region by now", async () => {
    const third = await startRotatingServer();
    await follow([other.url, third.url]);
    server.incidents.push(...misdirected(other.url));
    await signet.events.publish(EVENT);
    other.incidents.push({ kind: "lost" });
    await expect(signet.events.publish(EVENT)).rejects.toMatchObject({ code: "CONNECTION" });
    server.incidents.push(...misdirected(third.url));
    await signet.events.publish(EVENT);
    expect(third.requests.map(({ path }) => path)).toEqual(["/v1/events"]);
    await third.close();
  });

  test.each(["http://us.example.com", "https://user@us.example.com", "https://us.example.com/?to=x"])(
    "could lead to no %s: such an address is refused in the list, too",
    (address) => {
      expect(() => client({ regionUrls: [address] })).toThrow(TypeError);
    },
  );

  test.each([
    {},
    { base_url: 7 },
    { base_url: "ftp://example.com" },
    { base_url: "/" },
    // Of a listed address, with a query that would go along.
    { base_url: "http://127.0.0.1:1/?to=x" },
  ])("with %o goes to the caller", async (named) => {
    await follow(["http://127.0.0.1:1"]);
    const body = { code: "MISDIRECTED_REQUEST", ...named };
    server.incidents.push(...twice({ kind: "answer", status: 421, body }));
    await expect(signet.endpoints.get("ep_1")).rejects.toMatchObject({ status: 421 });
    expect(calls()).toHaveLength(2);
  });
});

describe("an error", () => {
  test("has status, code, request id and the problem document", async () => {
    const problem = {
      code: "SCOPE_VIOLATION",
      detail: "requires scope",
      missing_permission: "webhooks:read",
    };
    server.incidents.push({ kind: "answer", status: 403, body: problem });
    const error = await signet.endpoints.get("ep_1").catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(SignetApiError);
    expect(error).toMatchObject({
      status: 403,
      code: "SCOPE_VIOLATION",
      requestId: "req_0000000000000000000000rq",
      problem,
      message: "SCOPE_VIOLATION: requires scope (request req_0000000000000000000000rq)",
    });
  });

  test("of something other than the service still has the status", async () => {
    server.incidents.push({ kind: "answer", status: 404, body: "<html>" });
    await expect(signet.endpoints.get("ep_1")).rejects.toMatchObject({ status: 404, code: "HTTP_404" });
  });

  test("of a caller's abort is the caller's reason, and does not stop others", async () => {
    const stop = new AbortController();
    const fresh = client();
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    server.incidents.push({ kind: "held", release: released });
    const given = fresh.endpoints.get("ep_1", { signal: stop.signal });
    const kept = fresh.endpoints.get("ep_2");
    const reason = new Error("enough");
    stop.abort(reason);
    await expect(given).rejects.toBe(reason);
    release();
    await expect(kept).resolves.toBeDefined();
  });

  test("of a service that does not answer in time is TIMEOUT", async () => {
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    server.incidents.push({ kind: "held", release: released });
    const hasty = client({ timeoutMs: 50, retry: { attempts: 1 } });
    await expect(hasty.accessToken()).rejects.toMatchObject({ code: "TIMEOUT" });
    release();
  });
});

test("a delete whose response was lost has succeeded when its retry finds nothing", async () => {
  server.incidents.push({ kind: "lost" }, { kind: "answer", status: 404, body: { code: "NOT_FOUND" } });
  await expect(signet.endpoints.delete("ep_1")).resolves.toBeUndefined();
  server.incidents.push({ kind: "answer", status: 404, body: { code: "NOT_FOUND" } });
  await expect(signet.endpoints.delete("ep_1")).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test("a list is read page by page, with its filter on each", async () => {
  const page = (ids: readonly string[], next: string | null) =>
    ({ kind: "answer", status: 200, body: { data: ids.map((id) => ({ id })), next_cursor: next } }) as const;
  server.incidents.push(page(["a", "b"], "c1"), page(["c"], "c&2"), page([], null));
  const seen: string[] = [];
  const from = new Date("2026-11-20T00:00:00.000Z");
  for await (const { id } of signet.deliveries.list({ state: "RETRYING", from, limit: 2 })) {
    seen.push(id);
  }
  expect(seen).toEqual(["a", "b", "c"]);
  const filter = "/v1/webhooks/deliveries?state=RETRYING&from=2026-11-20T00%3A00%3A00.000Z&limit=2";
  expect(calls().map(({ path }) => path)).toEqual([filter, `${filter}&cursor=c1`, `${filter}&cursor=c%262`]);
});

test("an id stays one segment of the path", async () => {
  await signet.endpoints.get("../dlq?x#y");
  expect(calls()[0]?.path).toBe("/v1/webhooks/endpoints/..%2Fdlq%3Fx%23y");
});

describe("secrets and tokens", () => {
  /** Returns everything a logger could print of a value. */
  const shown = (value: unknown): string => {
    const error = value instanceof Error ? `${value.stack} ${inspect(value.cause, { depth: 9 })}` : "";
    return `${error} ${inspect(value, { depth: 9, showHidden: true })} ${JSON.stringify(value)} ${String(value)}`;
  };

  test("are not in any printed form of the client", async () => {
    expect(shown(signet)).not.toMatch(/canary|token-1/);
  });

  test.each([
    ["a rejection that echoes the request", { kind: "answer", status: 400 } as const],
    ["a lost response", { kind: "lost" } as const],
  ])("are not in the error of %s", async (_name, incident) => {
    const echo = {
      error: "invalid_request",
      error_description: `you sent ${secretOf(1)}`,
      sent: secretOf(1),
    };
    const failing = client({ retry: { attempts: 1 } });
    server.incidents.push(incident.kind === "answer" ? { ...incident, body: echo } : incident);
    const error = await failing.accessToken().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(Error);
    expect(shown(error)).not.toContain("canary");
  });

  test("are not in the error of a rejected call, nor of an unreachable service", async () => {
    server.incidents.push({ kind: "answer", status: 500, body: { detail: "Bearer token-1" } });
    const refused = await signet.endpoints.get("ep_1").catch((reason: unknown) => reason);
    expect(shown(refused)).toContain("[removed]");
    await server.close();
    const unreachable = await client({ retry: { attempts: 2 } })
      .accessToken()
      .catch((reason: unknown) => reason);
    expect(unreachable).toMatchObject({ code: "CONNECTION" });
    expect(shown([refused, unreachable, runtime.warnings])).not.toMatch(/canary|token-1/);
  });
});

describe("a client's configuration", () => {
  test.each(["\n", "\r\n", " \t"])(
    "takes an id and a secret from a file, which ends with %j",
    async (end) => {
      const other = client({
        clientId: `\ufeff${CLIENT_ID}${end}`,
        clientSecret: `\ufeff${secretOf(1)}${end}`,
      });
      expect((await other.accessToken()).value).toMatch(/^token-/);
    },
  );

  test.each([
    [{ clientId: " \n" }, "clientId is empty"],
    [{ clientSecret: "" }, "clientSecret is empty"],
    [{ clientSecret: null }, "clientSecret is not set"],
    [{ clientSecret: 7 }, "clientSecret is not a text"],
    [{ clientAssertion: "eyJ" }, "clientAssertion is not a function"],
    [{ store: "credential.json" }, "store.load is not set"],
    [{ store: { load: () => undefined } }, "store.save is not set"],
  ])("%j is refused before the first request", (wrong, message) => {
    expect(() => client(wrong as unknown as Partial<SignetClientOptions>)).toThrow(new TypeError(message));
  });
});
