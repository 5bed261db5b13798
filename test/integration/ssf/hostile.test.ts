/** Streams of other tenants, and requests that no receiver would send. */
import { beforeAll, describe, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { streamTenant } from "#test/support/ssf.ts";
import { createTenant, type Json, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const PUSH = "urn:ietf:rfc:8935";
let tenant: Tenant;
let id: string;

beforeAll(async () => {
  tenant = await streamTenant(api);
  id = String((await tenant.post("/v1/ssf/streams", {})).body["stream_id"]);
});

const SUBJECT = { format: "opaque", id: "x" };
/** Each route with a stream. */
const ROUTES: readonly [string, string, Json | undefined][] = [
  ["GET", "/v1/ssf/streams?stream_id=ID", undefined],
  ["PATCH", "/v1/ssf/streams", { stream_id: "ID", description: "mine" }],
  ["PUT", "/v1/ssf/streams", { stream_id: "ID" }],
  ["DELETE", "/v1/ssf/streams?stream_id=ID", undefined],
  ["GET", "/v1/ssf/status?stream_id=ID", undefined],
  ["POST", "/v1/ssf/status", { stream_id: "ID", status: "disabled" }],
  ["POST", "/v1/ssf/subjects/add", { stream_id: "ID", subject: SUBJECT }],
  ["POST", "/v1/ssf/subjects/remove", { stream_id: "ID", subject: SUBJECT }],
  ["POST", "/v1/ssf/verify", { stream_id: "ID" }],
  ["POST", "/v1/ssf/poll/ID", { returnImmediately: true }],
];
const of = (text: string): string => text.replaceAll("ID", id);
const bodyOf = (body: Json | undefined): unknown =>
  body === undefined ? undefined : (JSON.parse(of(JSON.stringify(body))) as unknown);

describe.each(ROUTES)("%s %s", (method, path, body) => {
  test("does not show another tenant's stream", async () => {
    const other = await streamTenant(api);
    const answer = await other.send(method, of(path), { body: bodyOf(body) });
    expect(answer).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
    expect(await tenant.get(`/v1/ssf/status?stream_id=${id}`)).toMatchObject({ body: { status: "enabled" } });
  });

  test("needs a scope of its own", async () => {
    const other = await createTenant(api);
    const answer = await other.send(method, of(path), { body: bodyOf(body) });
    expect(answer).toMatchObject({ status: 403, body: { code: "SCOPE_VIOLATION" } });
  });

  test("rejects what is not the id of a stream", async () => {
    for (const wrong of ["x", "crd_01jd3c5xq8m2v7k9r4t6w0zy", "%00"]) {
      const changed = body && { ...body, stream_id: wrong };
      const answer = await tenant.send(method, path.replace("ID", wrong), { body: changed });
      expect(answer.status).toBeOneOf([400, 404, 422]);
    }
  });
});

describe.each(ROUTES.filter(([, , body]) => body?.["stream_id"] !== undefined))(
  "%s %s",
  (method, path, body) => {
    test("may name the stream in its query as well, and no other there", async () => {
      const stream = String((await tenant.post("/v1/ssf/streams", {})).body["stream_id"]);
      const send = async (named: string) =>
        await tenant.send(method, `${path}?stream_id=${named}`, { body: { ...body, stream_id: stream } });
      for (const other of [id, "x", ""]) {
        expect(await send(other)).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST" } });
      }
      expect(await tenant.get(`/v1/ssf/status?stream_id=${stream}`)).toMatchObject({
        body: { status: "enabled" },
      });
      expect((await send(stream)).status).toBeOneOf([200, 204]);
      await tenant.send("DELETE", `/v1/ssf/streams?stream_id=${stream}`);
    });
  },
);

test("a scope for reading changes nothing", async () => {
  const reader = await createTenant(api, ["ssf:read"]);
  expect(await reader.get("/v1/ssf/streams")).toMatchObject({ status: 200 });
  expect(await reader.post("/v1/ssf/streams", {})).toMatchObject({ status: 403 });
});

describe("a stream is not created", () => {
  const push = (more: Json): Json => ({ delivery: { method: PUSH, ...more } });
  test.each<[string, unknown, number]>([
    ["without a URL", push({}), 422],
    ["for a method that does not exist", { delivery: { method: "urn:ietf:rfc:1" } }, 422],
    ["for a URL with a user", push({ endpoint_url: "https://user:secret@example.com/" }), 422],
    ["for a file", push({ endpoint_url: "file:///etc/passwd" }), 422],
    ["for the metadata service of a cloud", push({ endpoint_url: "http://169.254.169.254/latest" }), 422],
    ["for a number", push({ endpoint_url: 7 }), 422],
    [
      "with a header of two lines",
      push({ endpoint_url: "https://example.com/", authorization_header: "a\r\nHost: x" }),
      422,
    ],
    ["with too many events", { events_requested: Array.from({ length: 65 }, (_, n) => `urn:${n}`) }, 422],
    ["with an event that is no text", { events_requested: [{}] }, 422],
    ["with a description of too many characters", { description: "x".repeat(1_025) }, 422],
    ["with U+0000", { description: "\u0000" }, 400],
    ["with an unknown member", { aud: "mine" }, 422],
    ["from a list", [], 422],
    ["from a huge body", { description: "x".repeat(70_000) }, 413],
  ])("%s", async (_what, body, status) => {
    const answer = await tenant.post("/v1/ssf/streams", body);
    expect(answer, answer.text).toMatchObject({ status });
    expect(answer.text).not.toContain("secret@");
  });

  test("beyond ten, or after a change of what the service supplies", async () => {
    const many = await streamTenant(api);
    for (let count = 0; count < 10; count += 1) {
      expect(await many.post("/v1/ssf/streams", {})).toMatchObject({ status: 201 });
    }
    expect(await many.post("/v1/ssf/streams", {})).toMatchObject({
      status: 422,
      body: { code: "LIMIT_EXCEEDED" },
    });
    const wrong = await tenant.send("PATCH", "/v1/ssf/streams", { body: { stream_id: id, aud: "other" } });
    expect(wrong).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST" } });
    const elsewhere = { method: "urn:ietf:rfc:8936", endpoint_url: "https://example.com/" };
    expect(
      await tenant.send("PATCH", "/v1/ssf/streams", { body: { stream_id: id, delivery: elsewhere } }),
    ).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST" } });
    const method = { method: PUSH, endpoint_url: "https://example.com/" };
    expect(
      await tenant.send("PATCH", "/v1/ssf/streams", { body: { stream_id: id, delivery: method } }),
    ).toMatchObject({ status: 409, body: { code: "INVALID_STATE" } });
  });
});

test.each<[string, Json]>([
  ["a subject that is no object", { subject: "x" }],
  ["a subject without a format", { subject: { id: "x" } }],
  [
    "a subject with too many members",
    { subject: { format: "x", ...Object.fromEntries([...Array(16).keys()].map((n) => [n, n])) } },
  ],
])("%s is not removed", async (_what, body) => {
  const answer = await tenant.post("/v1/ssf/subjects/remove", { stream_id: id, ...body });
  expect(answer).toMatchObject({ status: 422 });
});

test.each<[string, Json]>([
  ["a negative number of tokens", { maxEvents: -1 }],
  ["too many acknowledgements", { ack: Array.from({ length: 101 }, (_, n) => `set_${n}`) }],
  ["an acknowledgement that is no jti", { ack: ["ü"] }],
  ["an error that is no object", { setErrs: { set_1: "x" } }],
  ["an error of what is no jti", { setErrs: { ü: { err: "x" } } }],
])("a poll with %s is rejected", async (_what, body) => {
  expect(await tenant.post(`/v1/ssf/poll/${id}`, { returnImmediately: true, ...body })).toMatchObject({
    status: 422,
  });
});

test("the webhook routes show the endpoint of a stream, and change nothing of it", async () => {
  const owner = await createTenant(api, ["ssf:manage", "webhooks:read", "webhooks:write"]);
  const made = await owner.post("/v1/ssf/streams", {
    delivery: { method: PUSH, endpoint_url: "http://127.0.0.1:65000/" },
  });
  const path = `/v1/webhooks/endpoints/${String(made.body["endpoint_id"])}`;
  expect((await owner.get(path)).body).toMatchObject({ ssf_stream: made.body["stream_id"], events: [] });
  const { body: document } = await api.request("/openapi.json");
  for (const [method, at, body] of [
    ["PATCH", path, { events: ["*"] }],
    ["DELETE", path, undefined],
    ["POST", `${path}/disable`, undefined],
    ["POST", `${path}/test`, undefined],
    ["POST", `${path}/grade`, undefined],
  ] as const) {
    expect(await owner.send(method, at, { body })).toMatchObject({
      status: 409,
      body: { code: "INVALID_STATE" },
    });
    const documented = [
      at.replace(path, "/v1/webhooks/endpoints/{id}"),
      method.toLowerCase(),
      "responses",
      "409",
    ];
    expect(document["paths"]).toHaveProperty(documented);
  }
});
