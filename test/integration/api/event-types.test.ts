/** The catalogue of event types, and the events that its schemas admit. */
import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import {
  anInstant,
  createTenant,
  expectRefusal,
  listAll,
  rows,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useSharedApi();
const PATH = "/v1/webhooks/event-types";
const SCHEMA = {
  type: "object",
  required: ["amount"],
  properties: { amount: { type: "number", minimum: 0 }, lines: { type: "array", items: { type: "string" } } },
};
let tenant: Tenant;
let made = 0;

beforeAll(async () => {
  tenant = await createTenant(api);
});

function aName(): string {
  made += 1;
  return `order.number_${made}`;
}

/** Creates a type with the schema in a new tenant: a tenant can change schemas 30 times a minute. */
async function withSchema(schema: unknown = SCHEMA): Promise<{ owner: Tenant; name: string }> {
  const owner = await createTenant(api);
  const name = aName();
  expect(await owner.post(PATH, { name, schema })).toMatchObject({ status: 201 });
  return { owner, name };
}

describe("the catalogue", () => {
  test("accepts a name of 128 characters and finds the type by it", async () => {
    const name = `order.${"n".repeat(122)}`;
    expect(await tenant.post(PATH, { name })).toMatchObject({ status: 201 });
    expect(await tenant.get(`${PATH}/${name}`)).toMatchObject({ status: 200, body: { name } });
    expect(await tenant.get(`${PATH}/${name}/versions`)).toMatchObject({ status: 200 });
    const patched = await tenant.send("PATCH", `${PATH}/${name}`, { body: { description: "Long" } });
    expect(patched).toMatchObject({ status: 200, body: { description: "Long" } });
    expect(await tenant.send("DELETE", `${PATH}/${name}`)).toMatchObject({ status: 204 });
  });

  test("keeps a tenant's description of a type as it was written", async () => {
    const name = aName();
    const raw = `{"name":"${name}","description":"Paid","schema":{"minProperties":1.0},"examples":[{"n":1.0,"big":9007199254740993}]}`;
    const answer = await tenant.send("POST", PATH, { raw });
    expect(answer).toMatchObject({
      status: 201,
      body: {
        name,
        description: "Paid",
        schema_version: 1,
        deprecated_at: null,
        replaced_by: null,
        archived_at: null,
        created_at: anInstant(),
      },
    });
    const read = await tenant.get(`${PATH}/${name}`);
    expect(read.text).toBe(answer.text);
    expect(read.text).toContain('"schema":{"minProperties":1.0}');
    expect(read.text).toContain('"examples":[{"n":1.0,"big":9007199254740993}]');
    expectRefusal(await tenant.post(PATH, { name }), 409, "CONFLICT");
  });

  test("numbers the immutable versions of a schema and can return to an earlier one", async () => {
    const { owner, name } = await withSchema();
    const patch = async (body: unknown): Promise<unknown> =>
      (await owner.send("PATCH", `${PATH}/${name}`, { body })).body["schema_version"];
    expect(await patch({ schema: SCHEMA })).toBe(1);
    expect(await patch({ schema: { ...SCHEMA, required: [] } })).toBe(2);
    expect(await patch({ schema_version: 1 })).toBe(1);
    expect(await patch({ schema_version: null })).toBeNull();
    expectRefusal(
      await owner.send("PATCH", `${PATH}/${name}`, { body: { schema_version: 3 } }),
      422,
      "VALIDATION_FAILED",
    );
    const versions = await listAll(owner, `${PATH}/${name}/versions`, 1);
    expect(versions.map(({ version }) => version)).toEqual([2, 1]);
    expect(versions[1]).toMatchObject({ schema: SCHEMA });
    await expect(
      sql(api, "SET ROLE signet_api; UPDATE event_type_schemas SET schema = '{}'"),
    ).rejects.toThrow(/permission denied/);
  });

  test("is listed by name, page by page, with archived types only on request", async () => {
    const owner = await createTenant(api);
    for (const name of ["b.b", "a.b", "c.d", "a.a"]) {
      await owner.post(PATH, { name });
    }
    await owner.send("PATCH", `${PATH}/b.b`, { body: { archived: true } });
    const names = async (query: string): Promise<unknown[]> =>
      (await listAll(owner, PATH + query, 2)).map(({ name }) => name);
    expect(await names("")).toEqual(["a.a", "a.b", "c.d"]);
    expect(await names("?archived=true")).toEqual(["a.a", "a.b", "b.b", "c.d"]);
  });

  test("marks deprecated types, and so do the answers to their events", async () => {
    const { owner, name } = await withSchema();
    const event = { type: name, data: { amount: 1 } };
    expect((await owner.post("/v1/events", event)).headers.get("deprecation")).toBeNull();
    const { body } = await owner.send("PATCH", `${PATH}/${name}`, {
      body: { deprecated: true, replaced_by: "order.paid" },
    });
    expect(body).toMatchObject({ deprecated_at: anInstant(), replaced_by: "order.paid" });
    const since = `@${Math.floor(Date.parse(String(body["deprecated_at"])) / 1_000)}`;
    const single = await owner.post("/v1/events", event);
    expect({ status: single.status, since: single.headers.get("deprecation") }).toEqual({
      status: 202,
      since,
    });
    const batch = await owner.post("/v1/events", { events: [{ type: "other.type", data: {} }, event] });
    expect(batch.headers.get("deprecation")).toBe(since);
  });

  test("rejects ping, and types beyond the tenant's limit", async () => {
    expectRefusal(await tenant.post(PATH, { name: "ping" }), 422, "VALIDATION_FAILED");
    const owner = await createTenant(api);
    await sql(
      api,
      `INSERT INTO event_types (tenant_id, name, examples, created_at, updated_at)
        SELECT $1, 'many.n' || n, '[]', now(), now() FROM generate_series(1, 500) n`,
      [owner.tenantId],
    );
    expectRefusal(await owner.post(PATH, { name: "one.more" }), 422, "LIMIT_EXCEEDED");
  });

  test.each([
    ["a remote reference", { $ref: "https://example.com/schema" }, "/schema/$ref"],
    ["a dangling reference", { $ref: "#/$defs/none" }, "/schema"],
    ["a loop", { $defs: { a: { $ref: "#/$defs/a" } } }, "/schema/$defs/a"],
    ["a lookahead pattern", { properties: { a: { pattern: "(?=a)" } } }, "/schema/properties/a/pattern"],
    ["an unknown keyword", { requierd: ["a"] }, "/schema/requierd"],
    ["an unknown type", { type: "strin" }, "/schema/type"],
    ["its own id", { $id: "https://example.com" }, "/schema/$id"],
    ["another draft", { $schema: "http://json-schema.org/draft-07/schema#" }, "/schema/$schema"],
  ])("rejects a schema with %s", async (_name, schema, pointer) => {
    const answer = await tenant.post(PATH, { name: aName(), schema });
    expectRefusal(answer, 422, "VALIDATION_FAILED");
    expect((answer.body["errors"] as unknown[])[0]).toMatchObject({ pointer });
  });

  test("rejects examples that do not match the schema, even when the schema is set later", async () => {
    const { owner, name } = await withSchema();
    const answer = await owner.send("PATCH", `${PATH}/${name}`, {
      body: { examples: [{ amount: 1 }, { amount: "1" }] },
    });
    expectRefusal(answer, 422, "VALIDATION_FAILED");
    expect(answer.body["errors"]).toEqual([
      { pointer: "/examples/1/amount", code: "type", detail: "must be number" },
    ]);
    expect(
      await owner.send("PATCH", `${PATH}/${name}`, { body: { examples: [{ amount: 1 }] } }),
    ).toMatchObject({ status: 200 });
    expectRefusal(
      await owner.send("PATCH", `${PATH}/${name}`, { body: { schema: { required: ["b"] } } }),
      422,
      "VALIDATION_FAILED",
    );
    expect((await owner.get(`${PATH}/${name}`)).body).toMatchObject({ schema_version: 1, schema: SCHEMA });
  });
});

describe("an event of a type with a schema", () => {
  test("is rejected with pointers into the request if it does not match, and leaves nothing behind", async () => {
    const { owner, name } = await withSchema();
    const answer = await owner.post("/v1/events", { type: name, data: { amount: -1, lines: ["a", 2] } });
    expectRefusal(answer, 422, "VALIDATION_FAILED");
    expect(answer.body["errors"]).toEqual([
      { pointer: "/data/amount", code: "minimum", detail: "must be >= 0" },
      { pointer: "/data/lines/1", code: "type", detail: "must be string" },
    ]);
    expect(rows(await owner.get("/v1/events"))).toEqual([]);
  });

  test("is rejected on its own: the other items of its batch are accepted", async () => {
    const { owner, name } = await withSchema();
    const { status, body } = await owner.post("/v1/events", {
      events: [
        { type: name, data: { amount: 1 } },
        { type: name, data: {} },
        { type: "free.type", data: {} },
      ],
    });
    expect(status).toBe(202);
    expect(body["data"]).toMatchObject([
      { index: 0, type: name },
      {
        index: 1,
        error: { code: "VALIDATION_FAILED", errors: [{ pointer: "/data/amount", code: "required" }] },
      },
      { index: 2, type: "free.type" },
    ]);
  });

  test("is rejected on its own in a batch with a key too, at any position", async () => {
    const { owner, name } = await withSchema();
    const invalid = { type: name, data: {} };
    const publish = async (events: readonly unknown[], key: string): Promise<Answer> =>
      await owner.post("/v1/events", { events }, { "idempotency-key": key });
    const events = [invalid, { type: "free.type" }, { type: name, data: { amount: 1 } }, invalid];
    const first = await publish(events, "k");
    expect(first).toMatchObject({
      status: 202,
      body: {
        data: [
          { index: 0, error: { code: "VALIDATION_FAILED", errors: [{ pointer: "/data/amount" }] } },
          { index: 1, error: { code: "VALIDATION_FAILED", errors: [{ pointer: "/data" }] } },
          { index: 2, type: name },
          { index: 3, error: { code: "VALIDATION_FAILED" } },
        ],
      },
    });
    const again = await publish(events, "k");
    expect(again).toMatchObject({ status: 202, body: first.body });
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expectRefusal(await publish(events.slice(2), "k"), 409, "IDEMPOTENCY_KEY_REUSED");
    expect(rows(await owner.get("/v1/events"))).toHaveLength(1);
    // Nothing was accepted, so the key stays free.
    expect(await publish([invalid, invalid], "none")).toMatchObject({ status: 202 });
    expect(await publish([{ type: "free.type", data: {} }], "none")).toMatchObject({ status: 202 });
  });

  test("that matches after a schema change does not get the answer to another item of its batch", async () => {
    const { owner, name } = await withSchema();
    const events = [
      { type: name, data: {} },
      { type: name, data: { amount: 1 } },
    ];
    const publish = async (): Promise<Answer> =>
      await owner.post("/v1/events", { events }, { "idempotency-key": "k" });
    expect(await publish()).toMatchObject({ status: 202 });
    await owner.send("PATCH", `${PATH}/${name}`, { body: { schema: {} } });
    expectRefusal(await publish(), 409, "IDEMPOTENCY_KEY_REUSED");
    expect(rows(await owner.get("/v1/events"))).toHaveLength(1);
  });

  test("is checked against the schema in force at its commit, even if another process changed it", async () => {
    const { owner, name } = await withSchema();
    const publish = async (data: unknown): Promise<number> =>
      (await owner.post("/v1/events", { type: name, data })).status;
    expect([await publish({ amount: 1 }), await publish({})]).toEqual([202, 422]);
    // Simulates another process: this one is not notified.
    await sql(
      api,
      `WITH added AS (INSERT INTO event_type_schemas
          SELECT tenant_id, name, 2, '{"required":["b"]}', 'other', now() FROM event_types WHERE name = $1)
        UPDATE event_types SET schema_version = 2, schema_digest = 'other' WHERE name = $1`,
      [name],
    );
    expect([await publish({ amount: 1 }), await publish({ b: 1 })]).toEqual([422, 202]);
    await sql(api, "DELETE FROM event_types WHERE name = $1", [name]);
    expect([await publish({ amount: "x" }), await publish({})]).toEqual([202, 202]);
  });

  test("keeps its exact bytes: 1.0, 2^53 + 1, the order of members", async () => {
    const { owner, name } = await withSchema();
    const data = '{"z":9007199254740993,"amount":1.0,"a":{"__proto__":1e2}}';
    const answer = await owner.send("POST", "/v1/events", { raw: `{"type":"${name}","data":${data}}` });
    expect(answer).toMatchObject({ status: 202 });
    expect((await owner.get(`/v1/events/${String(answer.body["id"])}`)).text).toContain(`"data":${data}`);
  });

  test("has its numbers checked as they are written, at any length", async () => {
    const owner = await createTenant(api);
    const name = aName();
    const schema =
      '{"properties":{"price":{"multipleOf":0.01},"n":{"type":"integer","minimum":9007199254740993}}}';
    expect(await owner.send("POST", PATH, { raw: `{"name":"${name}","schema":${schema}}` })).toMatchObject({
      status: 201,
    });
    const publish = async (data: string): Promise<unknown> => {
      const { status, body } = await owner.send("POST", "/v1/events", {
        raw: `{"type":"${name}","data":${data}}`,
      });
      return status === 202 ? status : (body["errors"] as { code: string }[])[0]?.code;
    };
    expect(await publish('{"price":19.99,"n":1e999999}')).toBe(202);
    expect(await publish(`{"price":${"7".repeat(100_000)}.07}`)).toBe(202);
    expect(await publish('{"price":19.999}')).toBe("multiple_of");
    expect(await publish('{"n":9007199254740992}')).toBe("minimum");
    expect(await publish('{"n":9007199254740993.5}')).toBe("type");
    expect(rows(await owner.get("/v1/events"))).toHaveLength(2);
  });

  test("that was accepted gets the same answer again after a schema change", async () => {
    const { owner, name } = await withSchema();
    const publish = async (): Promise<unknown> => {
      const { status, body } = await owner.post(
        "/v1/events",
        { type: name, data: { amount: 1 } },
        { "idempotency-key": "once" },
      );
      return { status, id: body["id"] };
    };
    const first = await publish();
    await owner.send("PATCH", `${PATH}/${name}`, { body: { schema: { required: ["b"] } } });
    expect(await publish()).toEqual(first);
  });

  test("is checked against exactly one version while hundreds publish and the schema changes", async () => {
    const { owner, name } = await withSchema({ required: ["a"] });
    const publishing = Array.from({ length: 300 }, async (_, index) => {
      if (index === 150) {
        await owner.send("PATCH", `${PATH}/${name}`, { body: { schema: { required: ["b"] } } });
      }
      return (await owner.post("/v1/events", { type: name, data: index % 2 === 0 ? { a: 1 } : { b: 1 } }))
        .status;
    });
    const statuses = new Set(await Promise.all(publishing));
    expect(statuses).toEqual(new Set([202, 422]));
    const after = await owner.post("/v1/events", { type: name, data: { a: 1 } });
    expectRefusal(after, 422, "VALIDATION_FAILED");
  });
});
