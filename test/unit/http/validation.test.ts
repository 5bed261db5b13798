/** Values that schemas reject, and the responses. */
import { randomBytes } from "node:crypto";
import { Type } from "typebox";
import { beforeAll, expect, test } from "vitest";
import { Closed, IdempotencyHeaders, OpaqueObject } from "#http/common.ts";
import { createServer } from "#http/server.ts";
import type { SignetServer } from "#http/types.ts";
import { createLogger } from "#observability/logger.ts";

const Thing = Closed({
  name: Type.String({ minLength: 2 }),
  count: Type.Optional(Type.Integer()),
  data: Type.Optional(OpaqueObject),
  tags: Type.Optional(Type.Array(Type.String())),
});

let server: SignetServer;

beforeAll(async () => {
  server = createServer({
    baseUrl: "http://service.example",
    guards: {},
    clock: { now: () => 0 },
    randomBytes,
    log: createLogger({ level: "silent" }),
  });
  const config = { public: true, opaque: { "/data": 4 } } as const;
  server.post("/things", { config, schema: { body: Thing, headers: IdempotencyHeaders } }, ({ body }) => ({
    ...body,
    data: body.data?.text ?? null,
  }));
  server.post("/large", { config, bodyLimit: 1_048_576, schema: { body: Thing } }, () => ({}));
  await server.ready();
});

const post = async (url: string, payload: string, headers: Record<string, string> = {}) =>
  await server.inject({
    method: "POST",
    url,
    payload,
    headers: { "content-type": "application/json", ...headers },
  });

test("values are used unchanged: nothing is converted, nothing is dropped", async () => {
  const { errors } = (await post("/things", '{"name":1,"count":"1","tags":"x","more":1}')).json<{
    errors: unknown;
  }>();
  expect(errors).toEqual(
    expect.arrayContaining([
      { pointer: "/name", code: "type", detail: "must be a string, not 1" },
      { pointer: "/count", code: "type", detail: 'must be a whole number, not "1"' },
      { pointer: "/tags", code: "type", detail: "must be a list, not a string of 1 character" },
      { pointer: "/more", code: "unknown_member", detail: "is unknown; known: name, count, data, tags" },
    ]),
  );
});

test("a large body is reported by its first fault only: it could have millions", async () => {
  const faultCount = async (tags: number): Promise<number> => {
    const wrong = JSON.stringify({ name: 1, count: "1", tags: Array.from({ length: tags }, () => 1) });
    return (await post("/large", wrong)).json<{ errors: unknown[] }>().errors.length;
  };
  expect(await faultCount(20)).toBe(22);
  expect(await faultCount(2_000)).toBe(1);
});

test("at most 50 faults are reported", async () => {
  const members = Array.from({ length: 200 }, (_, index) => `"m${index}":1`).join();
  expect((await post("/things", `{${members}}`)).json<{ errors: unknown[] }>().errors).toHaveLength(50);
});

test("an opaque member keeps its own spelling", async () => {
  const answer = await post("/things", '{"name":"ab","data":{"b":1.0,"a":1e2, "b":2}}');
  expect(answer.json()).toEqual({ name: "ab", data: '{"b":1.0,"a":1e2, "b":2}' });
});

test.each([
  ["[]", "a list"],
  ["1", "a number"],
  ['"x"', "a string"],
  ["null", "null"],
  ["true", "true or false"],
])("an opaque object cannot be %s", async (data, word) => {
  const answer = await post("/things", `{"name":"ab","data":${data}}`);
  expect(answer.statusCode).toBe(422);
  expect(answer.json<{ errors: unknown }>().errors).toEqual([
    { pointer: "/data", code: "type", detail: `must be an object, not ${word}` },
  ]);
});

test.each([" ", "x", "a b~!", "k".repeat(255)])("the Idempotency-Key %j is accepted", async (key) => {
  expect((await post("/things", '{"name":"ab"}', { "idempotency-key": key })).statusCode).toBe(200);
});

test.each(["", "k".repeat(256), "ä", "a\tb"])("the Idempotency-Key %j gets a 400", async (key) => {
  const answer = await post("/things", '{"name":"ab"}', { "idempotency-key": key });
  expect(answer.statusCode).toBe(400);
  expect(answer.json()).toMatchObject({ code: "INVALID_REQUEST" });
});

test.each(["", " "])("an empty body (%j) gets a 400, as truncated JSON does", async (payload) => {
  expect((await post("/things", payload)).statusCode).toBe(400);
});
