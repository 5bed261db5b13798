/**
 * Rules for all resources: an answer can be sent back, and a malformed id is answered like an
 * unknown one.
 */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { ID_PREFIXES, type IdNoun, newId } from "#domain/ids.ts";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import {
  createEndpoint,
  createTenant,
  type Json,
  listAll,
  publish,
  rows,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useSharedApi();
const ENDPOINTS = "/v1/webhooks/endpoints";
const TYPES = "/v1/webhooks/event-types";
let tenant: Tenant;

beforeAll(async () => {
  tenant = await createTenant(api, [
    "webhooks:read",
    "webhooks:write",
    "webhooks:replay",
    "events:publish",
    "events:read",
    "credentials:read",
    "credentials:write",
    "credentials:revoke",
    "compliance:read",
  ]);
});

/** Returns the named members of an answer, which a request body accepts. */
function chosen(body: Json, names: readonly string[]): Json {
  return Object.fromEntries(names.map((name) => [name, body[name]]));
}

describe("null round-trips: POST and PATCH accept what GET returns", () => {
  const ENDPOINT = [
    "url",
    "events",
    "metadata",
    "description",
    "filter",
    "headers",
    "authentication",
    "require_echo",
    "rate_limit",
  ];
  const TYPE = ["description", "schema", "examples", "replaced_by"];
  const orNull = <T>(value: fc.Arbitrary<T>) => fc.option(value, { freq: 1 });

  test("for endpoints, whichever members are null", async () => {
    const settings = fc.record(
      {
        metadata: orNull(fc.constant({ team: "ml" })),
        description: orNull(fc.constant("x")),
        filter: orNull(fc.constant({ "data.n": 1 })),
        headers: orNull(fc.constant({ "X-A": "b" })),
        rate_limit: orNull(fc.constant(7)),
        authentication: fc.constant(null),
        require_echo: fc.boolean(),
      },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(settings, async (given) => {
        const made = await tenant.post(ENDPOINTS, {
          url: "https://example.com/a",
          events: ["a.b"],
          ...given,
        });
        expect({ given, made }).toMatchObject({ given, made: { status: 201 } });
        const path = `${ENDPOINTS}/${String(made.body["id"])}`;
        const shown = chosen((await tenant.get(path)).body, ENDPOINT);
        const copy = await tenant.post(ENDPOINTS, shown);
        expect({ shown, copy }).toMatchObject({ shown, copy: { status: 201, body: shown } });
        const patched = await tenant.send("PATCH", path, { body: shown });
        expect({ shown, patched }).toMatchObject({ shown, patched: { status: 200, body: shown } });
        await tenant.send("DELETE", path);
        await tenant.send("DELETE", `${ENDPOINTS}/${String(copy.body["id"])}`);
      }),
      { numRuns: 20 },
    );
  });

  test("for event types, whichever members are null", async () => {
    for (const [index, given] of [
      {},
      { schema: null },
      { schema: { type: "object" } },
      { description: null },
    ].entries()) {
      const made = await tenant.post(TYPES, { name: `a.t${index}`, ...given });
      expect({ given, made }).toMatchObject({ made: { status: 201 } });
      const shown = chosen((await tenant.get(`${TYPES}/a.t${index}`)).body, TYPE);
      const copy = await tenant.post(TYPES, { name: `b.t${index}`, ...shown });
      expect({ shown, copy }).toMatchObject({ shown, copy: { status: 201, body: shown } });
      const patched = await tenant.send("PATCH", `${TYPES}/a.t${index}`, { body: shown });
      expect({ shown, patched }).toMatchObject({ shown, patched: { status: 200, body: shown } });
    }
  });
});

describe("a malformed id", () => {
  const NOUNS = Object.entries(ID_PREFIXES).map(([noun, prefix]) => ({ noun: noun as IdNoun, prefix }));

  test("gets the same answer as an unknown one, on every route", async () => {
    const { paths } = (await api.request("/openapi.json")).body as {
      paths: Record<
        string,
        Record<string, { parameters?: { in: string; name: string; schema: { pattern?: string } }[] }>
      >;
    };
    const differing: unknown[] = [];
    let compared = 0;
    for (const [path, operations] of Object.entries(paths)) {
      for (const [method, { parameters = [] }] of Object.entries(operations)) {
        const id = parameters.find((one) => one.in === "path" && one.name === "id");
        const noun = NOUNS.find(({ prefix }) => id?.schema.pattern?.includes(`${prefix}_`));
        // A route with two ids names the malformed one, not the first unknown one.
        if (noun === undefined || path.includes("{grade_id}")) {
          continue;
        }
        const send = async (value: string): Promise<Answer> => {
          const grade = newId("grade", 0, randomBytes);
          const address = path.replace("{id}", value).replace("{grade_id}", grade);
          const takesBody = method === "post" || method === "patch";
          return await tenant.send(method.toUpperCase(), address, takesBody ? { body: {} } : {});
        };
        const unknown = await send(newId(noun.noun, 0, randomBytes));
        if (unknown.status !== 404) {
          continue;
        }
        compared += 1;
        for (const bad of ["abc", newId(noun.noun, 0, randomBytes).toUpperCase(), `x_${"0".repeat(24)}`]) {
          const malformed = await send(bad);
          if (malformed.status !== 404 || malformed.body["detail"] !== unknown.body["detail"]) {
            differing.push([method, path, bad, malformed.body["detail"], unknown.body["detail"]]);
          }
        }
      }
    }
    expect(differing).toEqual([]);
    expect(compared).toBeGreaterThan(20);
  });

  test("of an endpoint is reported as an unknown endpoint", async () => {
    for (const id of ["abc", "EP_06h0anwagftkk53y3470888x"]) {
      expect(await tenant.get(`${ENDPOINTS}/${id}`)).toMatchObject({
        status: 404,
        body: { code: "NOT_FOUND", detail: "There is no such endpoint." },
      });
    }
    expect((await tenant.get("/v1/webhooks/nowhere")).body["detail"]).toBe(
      "There is nothing at this address.",
    );
  });
});

test.each(["HTTPS://example.com/Hook", "hTTps://Example.COM/Hook"])(
  "%s is accepted as a target and normalized",
  async (url) => {
    const made = await tenant.post(ENDPOINTS, { url, events: ["a.b"] });
    expect(made).toMatchObject({ status: 201, body: { url: "https://example.com/Hook" } });
  },
);

test("endpoints can be listed by state", async () => {
  const own = await createTenant(api);
  const made = await Promise.all(
    (["PENDING", "ACTIVE", "DISABLED"] as const).map(
      async (state) => await createEndpoint(api, own, { state }),
    ),
  );
  for (const [index, state] of ["PENDING", "ACTIVE", "DISABLED"].entries()) {
    expect(rows(await own.get(`${ENDPOINTS}?state=${state}`))).toMatchObject([
      { id: made[index]?.id, state },
    ]);
  }
  expect(await own.get(`${ENDPOINTS}?state=DELETED`)).toMatchObject({ status: 400 });
});

test("attempts are paged, oldest first, without loss or repetition", async () => {
  const own = await createTenant(api);
  await createEndpoint(api, own);
  const event = await publish(own);
  const [delivery] = rows(await own.get(`/v1/webhooks/deliveries?event_id=${event}`));
  const id = String(delivery?.["id"]);
  await sql(
    api,
    `INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms, status)
      SELECT d.day, d.id, c, a, 'att_' || lpad((c * 100 + a)::text, 24, '0'), d.tenant_id, d.created_at, 1, 500
      FROM deliveries d, generate_series(1, 4) c, generate_series(1, 17) a WHERE d.id = $1`,
    [id],
  );
  const path = `/v1/webhooks/deliveries/${id}/attempts`;
  const first = await own.get(path);
  expect(rows(first)).toHaveLength(50);
  expect(first.body["next_cursor"]).toEqual(expect.any(String));
  const all = await listAll(own, path, 7);
  const places = all.map(({ cycle, attempt }) => [cycle, attempt]);
  expect(places).toEqual(Array.from({ length: 68 }, (_, n) => [Math.floor(n / 17) + 1, (n % 17) + 1]));
  expect(await own.get(`${path}?limit=101`)).toMatchObject({ status: 400 });
  expect(await own.get(`${path}?cursor=abc`)).toMatchObject({ status: 400 });
});

test("the remaining items of a cancelled replay are CANCELLED, not WAITING", async () => {
  const own = await createTenant(api);
  await createEndpoint(api, own, { state: "DISABLED" });
  await publish(own);
  await publish(own);
  const job = await own.post("/v1/webhooks/dlq/replay", { filter: {}, rate_per_second: 1 });
  expect(job).toMatchObject({ status: 202, body: { total: 2 } });
  const path = `/v1/webhooks/replays/${String(job.body["id"])}`;
  expect(rows(await own.get(`${path}/items?state=WAITING`))).toHaveLength(2);
  expect(rows(await own.get(`${path}/items?state=CANCELLED`))).toEqual([]);
  await sql(api, "UPDATE replay_items SET result = 'replayed' WHERE position = 1 AND job_id = $1", [
    job.body["id"],
  ]);
  expect(await own.post(`${path}/cancel`)).toMatchObject({ status: 200, body: { state: "CANCELLED" } });
  const items = [
    { position: 1, state: "DONE" },
    { position: 2, state: "CANCELLED", reason: null },
  ];
  expect(rows(await own.get(`${path}/items`))).toMatchObject(items);
  expect(rows(await own.get(`${path}/items?state=CANCELLED`))).toMatchObject(items.slice(1));
  expect(rows(await own.get(`${path}/items?state=WAITING`))).toEqual([]);
});
