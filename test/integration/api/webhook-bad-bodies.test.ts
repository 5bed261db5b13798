/** Invalid bodies at the webhook routes: each gets its code of the catalogue, never a 500. */
import { beforeAll, describe, expect, test } from "vitest";
import targets from "#test/support/vectors/targets.json" with { type: "json" };
import { useSharedApi } from "#test/support/api.ts";
import { createTenant, expectRefusal, type Json, rows, sql, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
let tenant: Tenant;

beforeAll(async () => {
  tenant = await createTenant(api);
});

const ENDPOINTS = "/v1/webhooks/endpoints";
const EVENTS = "/v1/events";
const ENDPOINT: Json = { url: "https://example.com/hook", events: ["inference.completed"] };
const EVENT: Json = { type: "inference.completed", data: {} };

/** Returns the object as JSON with one member set, or removed if the value is undefined. */
const withMember = (base: Json, name: string, value: unknown): string =>
  JSON.stringify({ ...base, [name]: value });
/** Returns the same with the member's value as literal JSON. */
const withSpelling = (base: Json, name: string, text: string): string =>
  `${JSON.stringify({ ...base, [name]: undefined }).slice(0, -1)},${JSON.stringify(name)}:${text}}`;
const nested = (depth: number): string => `${'{"a":'.repeat(depth - 1)}{}${"}".repeat(depth - 1)}`;
const padded = (bytes: number): string => `{"a":"${"x".repeat(bytes - 8)}"}`;

/** Expects a 422 that points at the member. */
async function expectInvalid(path: string, raw: string, pointer: string): Promise<void> {
  const answer = await tenant.send("POST", path, { raw });
  expectRefusal(answer, 422, "VALIDATION_FAILED");
  expect((answer.body["errors"] as Json[]).map((problem) => problem["pointer"])).toContain(pointer);
}

describe("POST /v1/webhooks/endpoints", () => {
  test.each<[string, string, string]>([
    ["no url", withMember(ENDPOINT, "url", undefined), "/url"],
    ["a url that is a number", withMember(ENDPOINT, "url", 1), "/url"],
    ["a url that is null", withMember(ENDPOINT, "url", null), "/url"],
    ["a url that is an array", withMember(ENDPOINT, "url", ["https://example.com"]), "/url"],
    ["an empty url", withMember(ENDPOINT, "url", ""), "/url"],
    [
      "a url of 2,049 characters",
      withMember(ENDPOINT, "url", `https://example.com/${"x".repeat(2_029)}`),
      "/url",
    ],
    ["no events", withMember(ENDPOINT, "events", undefined), "/events"],
    ["events that are null", withMember(ENDPOINT, "events", null), "/events"],
    ["events that are a string", withMember(ENDPOINT, "events", "inference.completed"), "/events"],
    ["events that are an object", withMember(ENDPOINT, "events", { 0: "a.b" }), "/events"],
    ["an empty list of events", withMember(ENDPOINT, "events", []), "/events"],
    [
      "65 events",
      withMember(
        ENDPOINT,
        "events",
        Array.from({ length: 65 }, (_, n) => `a.b${n}`),
      ),
      "/events",
    ],
    ["a duplicate event type", withMember(ENDPOINT, "events", ["a.b", "a.b"]), "/events"],
    ["a number among the events", withMember(ENDPOINT, "events", ["a.b", 1]), "/events/1"],
    ["null among the events", withMember(ENDPOINT, "events", [null]), "/events/0"],
    ["the reserved ping", withMember(ENDPOINT, "events", ["ping"]), "/events/0"],
    ["* with another type", withMember(ENDPOINT, "events", ["a.b", "*"]), "/events/1"],
    ["* twice", withMember(ENDPOINT, "events", ["*", "*"]), "/events"],
    ["a pattern", withMember(ENDPOINT, "events", ["inference.*"]), "/events/0"],
    ["capitals", withMember(ENDPOINT, "events", ["Inference.completed"]), "/events/0"],
    ["one word", withMember(ENDPOINT, "events", ["inference"]), "/events/0"],
    ["a dot at the end", withMember(ENDPOINT, "events", ["inference."]), "/events/0"],
    ["a dot at the start", withMember(ENDPOINT, "events", [".completed"]), "/events/0"],
    ["two dots", withMember(ENDPOINT, "events", ["a..b"]), "/events/0"],
    ["a hyphen", withMember(ENDPOINT, "events", ["a-b.c"]), "/events/0"],
    ["a part that starts with a digit", withMember(ENDPOINT, "events", ["a.1"]), "/events/0"],
    ["a line feed at the end", withMember(ENDPOINT, "events", ["a.b\n"]), "/events/0"],
    ["full-width letters", withMember(ENDPOINT, "events", ["\uff41.b"]), "/events/0"],
    ["129 characters", withMember(ENDPOINT, "events", [`a.${"b".repeat(127)}`]), "/events/0"],
    ["metadata that is an array", withMember(ENDPOINT, "metadata", []), "/metadata"],
    ["metadata that is a string", withMember(ENDPOINT, "metadata", "{}"), "/metadata"],
    ["metadata that is a number", withMember(ENDPOINT, "metadata", 1), "/metadata"],
    ["a description that is a number", withMember(ENDPOINT, "description", 1), "/description"],
    [
      "a description of 1,025 characters",
      withMember(ENDPOINT, "description", "x".repeat(1_025)),
      "/description",
    ],
    ["an unknown member", withMember(ENDPOINT, "urls", []), "/urls"],
    ["a state", withMember(ENDPOINT, "state", "ACTIVE"), "/state"],
    ["a secret", withMember(ENDPOINT, "secret", "whsec_x"), "/secret"],
    ["an id", withMember(ENDPOINT, "id", "ep_x"), "/id"],
    ["an empty object", "{}", "/url"],
    ["an array", "[]", ""],
    ["null", "null", ""],
  ])("rejects %s", async (_name, raw, pointer) => {
    await expectInvalid(ENDPOINTS, raw, pointer);
  });

  test.each<[string, string, number, string]>([
    ["metadata of 4,097 bytes", withSpelling(ENDPOINT, "metadata", padded(4_097)), 422, "LIMIT_EXCEEDED"],
    [
      "metadata of 4,097 bytes in fewer characters",
      withSpelling(ENDPOINT, "metadata", `{"a":"${"é".repeat(2_045)}"}`),
      422,
      "LIMIT_EXCEEDED",
    ],
    ["metadata nested six deep", withSpelling(ENDPOINT, "metadata", nested(6)), 422, "VALIDATION_FAILED"],
    ["metadata that is not JSON", withSpelling(ENDPOINT, "metadata", "{1}"), 400, "INVALID_REQUEST"],
    [
      "a duplicate member",
      withSpelling(ENDPOINT, "url", '"https://a.example","url":"https://b.example"'),
      400,
      "INVALID_REQUEST",
    ],
    [
      "a duplicate member, once escaped",
      withSpelling(ENDPOINT, "url", '"https://a.example","\\u0075rl":"https://b.example"'),
      400,
      "INVALID_REQUEST",
    ],
    ["__proto__", withSpelling(ENDPOINT, "__proto__", "{}"), 400, "INVALID_REQUEST"],
    ["NUL in the description", withSpelling(ENDPOINT, "description", '"\\u0000"'), 400, "INVALID_REQUEST"],
    ["half a surrogate pair", withSpelling(ENDPOINT, "description", '"\\ud83d"'), 400, "INVALID_REQUEST"],
    [
      "a number too large for a double",
      withSpelling(ENDPOINT, "description", "1e400"),
      400,
      "INVALID_REQUEST",
    ],
    [
      "arrays nested too deeply",
      withSpelling(ENDPOINT, "events", `${"[".repeat(40)}${"]".repeat(40)}`),
      400,
      "INVALID_REQUEST",
    ],
    ["truncated JSON", '{"url":"https://example.com', 400, "INVALID_REQUEST"],
    ["no body", "", 400, "INVALID_REQUEST"],
    ["70 KB", withMember(ENDPOINT, "description", "x".repeat(70_000)), 413, "PAYLOAD_TOO_LARGE"],
  ])("rejects %s", async (_name, raw, status, code) => {
    expectRefusal(await tenant.send("POST", ENDPOINTS, { raw }), status, code);
  });

  const FORBIDDEN = [
    ...targets.denied_urls,
    "http://169.254.169.254/latest/meta-data/",
    "https://[::ffff:10.0.0.1]/",
    "https://metadata.google.internal/",
    "https://user:password@example.com/",
    "https://example.com/#fragment",
    "https://example.com:22/",
    "https://example.com\\@10.0.0.1/",
    "https://exam\tple.com/",
    "https://example.com/\n",
    "https://ex\u00e4mple.com/",
    "https://10.0.0.1/",
    "https://0x0a000001/",
    "https://example.com:0/",
    "https:example.com",
    "//example.com/",
    "javascript:alert(1)",
    "file:///etc/passwd",
  ];

  function refusalOf(url: string): Json {
    if (url.includes("\0")) {
      return { status: 400, code: "INVALID_REQUEST" };
    }
    const outOfBounds = url === "" || url.length > 2_048;
    return { status: 422, code: outOfBounds ? "VALIDATION_FAILED" : "TARGET_URL_FORBIDDEN" };
  }

  test("rejects every forbidden target", async () => {
    // Development allows plain HTTP, and loopback in its canonical form.
    const allowed =
      /^(http:\/\/hooks\.example\.com\/|https:\/\/(127\.0\.0\.1|\[::1\]|localhost|LOCALHOST)\/)$/;
    const urls = FORBIDDEN.filter((url) => !allowed.test(url));
    expect(urls.length).toBeGreaterThan(FORBIDDEN.length - 6);
    for (const url of urls) {
      const answer = await tenant.post(ENDPOINTS, { ...ENDPOINT, url });
      expect({ url, status: answer.status, code: answer.body["code"] }).toEqual({ url, ...refusalOf(url) });
    }
  });

  test("rejects its own listeners as targets", async () => {
    for (const host of ["127.0.0.1", "localhost", "127.0.0.2", "[::1]"]) {
      const url = `http://${host}:${api.publicPort}/v1/events`;
      expectRefusal(await tenant.post(ENDPOINTS, { ...ENDPOINT, url }), 422, "TARGET_URL_FORBIDDEN");
    }
  });

  test("accepts values exactly at the limits", async () => {
    const fresh = await createTenant(api);
    const good: Json[] = [
      { ...ENDPOINT, url: `https://example.com/${"x".repeat(2_028)}` },
      { ...ENDPOINT, events: Array.from({ length: 64 }, (_, n) => `a.b${n}`) },
      { ...ENDPOINT, events: ["*"] },
      { ...ENDPOINT, events: [`a.${"b".repeat(126)}`] },
      { ...ENDPOINT, metadata: JSON.parse(padded(4_096)) as unknown },
      { ...ENDPOINT, metadata: JSON.parse(nested(5)) as unknown },
      { ...ENDPOINT, description: "x".repeat(1_024) },
      { ...ENDPOINT, description: null },
    ];
    for (const body of good) {
      expect(await fresh.post(ENDPOINTS, body)).toMatchObject({ status: 201 });
    }
    expect(rows(await fresh.get(ENDPOINTS))).toHaveLength(good.length);
  });

  test("registers nothing from a rejected request", async () => {
    expect(rows(await tenant.get(ENDPOINTS))).toEqual([]);
  });
});

describe("POST /v1/events", () => {
  test.each<[string, string, string]>([
    ["no type", withMember(EVENT, "type", undefined), "/type"],
    ["a type that is null", withMember(EVENT, "type", null), "/type"],
    ["a type that is an array", withMember(EVENT, "type", ["a.b"]), "/type"],
    ["the reserved ping", withMember(EVENT, "type", "ping"), "/type"],
    ["*", withMember(EVENT, "type", "*"), "/type"],
    ["a type with capitals", withMember(EVENT, "type", "A.b"), "/type"],
    ["a type with a line feed", withMember(EVENT, "type", "a.b\n"), "/type"],
    ["a type of 129 characters", withMember(EVENT, "type", `a.${"b".repeat(127)}`), "/type"],
    ["no data", withMember(EVENT, "data", undefined), "/data"],
    ["data that is an array", withMember(EVENT, "data", []), "/data"],
    ["data that is a string", withMember(EVENT, "data", "x"), "/data"],
    ["data that is a number", withMember(EVENT, "data", 1), "/data"],
    ["data that is true", withMember(EVENT, "data", true), "/data"],
    ["data that is null", withMember(EVENT, "data", null), "/data"],
    ["an id that is a number", withMember(EVENT, "id", 1), "/id"],
    ["an empty id", withMember(EVENT, "id", ""), "/id"],
    ["an id of 129 characters", withMember(EVENT, "id", "x".repeat(129)), "/id"],
    ["an id with a line feed", withMember(EVENT, "id", "a\nb"), "/id"],
    ["an id that is null", withMember(EVENT, "id", null), "/id"],
    ["a time that is a number", withMember(EVENT, "occurred_at", 1_763_650_000), "/occurred_at"],
    ["an invalid tenant_id", withMember(EVENT, "tenant_id", "x"), "/tenant_id"],
    [
      "a tenant_id with another resource's prefix",
      withMember(EVENT, "tenant_id", "ep_000000000000000000000000"),
      "/tenant_id",
    ],
    ["an unknown member", withMember(EVENT, "payload", {}), "/payload"],
    ["an empty object", "{}", "/type"],
    ["an array of events", JSON.stringify([EVENT]), ""],
    ["null", "null", ""],
    ["a batch without events", '{"events":[]}', "/events"],
    ["a batch that is an object", '{"events":{}}', "/events"],
    ["a batch that is null", '{"events":null}', "/events"],
    ["a batch with another member", '{"events":[{}],"type":"a.b"}', "/type"],
    ["a batch of 1,001", JSON.stringify({ events: Array.from({ length: 1_001 }, () => EVENT) }), "/events"],
  ])("rejects %s", async (_name, raw, pointer) => {
    await expectInvalid(EVENTS, raw, pointer);
  });

  test.each([
    "yesterday",
    "2025-01-01",
    "2025-01-01T00:00:00",
    "2025-01-01 00:00:00Z",
    "2025-02-29T00:00:00Z",
    "2025-02-30T00:00:00Z",
    "2025-04-31T00:00:00Z",
    "2025-00-10T00:00:00Z",
    "2025-13-01T00:00:00Z",
    "2025-01-00T00:00:00Z",
    "2025-01-32T00:00:00Z",
    "2025-01-01T24:00:00Z",
    "2025-01-01T25:00:00Z",
    "2025-01-01T00:60:00Z",
    "2025-01-01T00:00:61Z",
    "2025-01-01T00:00:00+24:00",
    "2025-01-01T00:00:00+01:60",
    "2025-01-01T00:00:00+0100",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "+010000-01-01T00:00:00Z",
    "2025-01-01T00:00:00.1234567890Z",
    "2025-01-01T00:00:00Z\n",
    "",
  ])("rejects the time %j", async (time) => {
    await expectInvalid(EVENTS, withMember(EVENT, "occurred_at", time), "/occurred_at");
  });

  test("rejects only the items of a batch that are nested too deeply", async () => {
    const event = (data: string): string => withSpelling(EVENT, "data", data);
    const raw = `{"events":[${event(nested(65))},${event(nested(64))},${event(nested(999))}]}`;
    const answer = await (await createTenant(api)).send("POST", EVENTS, { raw });
    const refused = { code: "VALIDATION_FAILED", errors: [{ pointer: "/data", code: "max_depth" }] };
    expect(answer).toMatchObject({
      status: 202,
      body: { data: [{ error: refused }, { index: 1, type: EVENT["type"] }, { index: 2, error: refused }] },
    });
  });

  test.each<[string, string, number, string]>([
    ["a duplicate member", withSpelling(EVENT, "type", '"a.b","type":"a.c"'), 400, "INVALID_REQUEST"],
    ["duplicate data", withSpelling(EVENT, "data", '{},"data":{"a":1}'), 400, "INVALID_REQUEST"],
    ["data that is not JSON", withSpelling(EVENT, "data", "{a:1}"), 400, "INVALID_REQUEST"],
    ["data that is NaN", withSpelling(EVENT, "data", '{"a":NaN}'), 400, "INVALID_REQUEST"],
    ["data with a raw NUL", withSpelling(EVENT, "data", '{"a":"\0"}'), 400, "INVALID_REQUEST"],
    ["data nested 65 deep", withSpelling(EVENT, "data", nested(65)), 422, "VALIDATION_FAILED"],
    ["data nested 100,000 deep", withSpelling(EVENT, "data", nested(100_000)), 400, "INVALID_REQUEST"],
    ["NUL in the id", withSpelling(EVENT, "id", '"\\u0000"'), 400, "INVALID_REQUEST"],
    ["half a surrogate pair in the id", withSpelling(EVENT, "id", '"\\udc00"'), 400, "INVALID_REQUEST"],
    ["a number too large for a double", withSpelling(EVENT, "id", "-1e999"), 400, "INVALID_REQUEST"],
    ["no body", "", 400, "INVALID_REQUEST"],
    ["an event of more than 256 KiB", withSpelling(EVENT, "data", padded(262_145)), 413, "PAYLOAD_TOO_LARGE"],
    [
      "a batch of more than 4 MiB",
      JSON.stringify({
        events: Array.from({ length: 20 }, () => ({ ...EVENT, data: { a: "x".repeat(215_000) } })),
      }),
      413,
      "PAYLOAD_TOO_LARGE",
    ],
  ])("rejects %s", async (_name, raw, status, code) => {
    expectRefusal(await tenant.send("POST", EVENTS, { raw }), status, code);
  });

  test.each([
    ["empty", ""],
    ["of 256 characters", "k".repeat(256)],
    ["text with a tab", "a\tb"],
    ["text beyond ASCII", "caf\u00e9"],
  ])("rejects an Idempotency-Key that is %s", async (_name, key) => {
    for (const [path, body] of [
      [EVENTS, EVENT],
      [ENDPOINTS, ENDPOINT],
    ] as const) {
      expectRefusal(await tenant.post(path, body, { "idempotency-key": key }), 400, "INVALID_REQUEST");
    }
  });

  test("stores nothing from a rejected request", async () => {
    expect(rows(await tenant.get(EVENTS))).toEqual([]);
    expect(await sql(api, "SELECT FROM idempotency_keys WHERE tenant_id = $1", [tenant.tenantId])).toEqual(
      [],
    );
  });

  test("accepts values exactly at the limits", async () => {
    const fresh = await createTenant(api);
    const good = [
      withSpelling(EVENT, "data", padded(262_144)),
      withSpelling(EVENT, "data", nested(64)),
      withMember(EVENT, "id", "x".repeat(128)),
      withMember(EVENT, "occurred_at", "2024-02-29T23:59:59.999999999+23:59"),
      withMember(EVENT, "type", `a.${"b".repeat(126)}`),
      withMember(EVENT, "tenant_id", fresh.tenantId),
      JSON.stringify({ events: Array.from({ length: 1_000 }, () => EVENT) }),
    ];
    for (const raw of good) {
      expect(await fresh.send("POST", EVENTS, { raw })).toMatchObject({ status: 202 });
    }
    const key = { "idempotency-key": "~".repeat(255) };
    expect(await fresh.post(EVENTS, EVENT, key)).toMatchObject({ status: 202 });
  });
});
