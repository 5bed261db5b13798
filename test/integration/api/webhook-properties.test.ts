/** No input causes a 5xx, and every error response has a code of the catalogue. */
import * as fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { ERROR_CATALOGUE } from "#domain/errors.ts";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { type ApiRoute, apiRoutes } from "#test/support/openapi.ts";
import { createEndpoint, createTenant, publish, rows, type Tenant } from "#test/support/tenant.ts";

const api = useTestApi();
const RUNS = 60;
let tenant: Tenant;
let writing: readonly ApiRoute[];
const ids = new Map<string, string>();

beforeAll(async () => {
  tenant = await createTenant(api);
  const endpoint = await createEndpoint(api, tenant, { state: "DISABLED" });
  const event = await publish(tenant);
  const delivery = String(rows(await tenant.get("/v1/webhooks/dlq"))[0]?.["id"]);
  ids.set("/v1/webhooks/endpoints", endpoint.id).set("/v1/events", event);
  ids.set("/v1/webhooks/deliveries", delivery).set("/v1/webhooks/dlq", delivery);
  // The route that deletes the endpoint comes last.
  writing = (await apiRoutes(api)).filter(
    ({ method, path }) => method !== "GET" && /^\/v1\/(webhooks|events)/.test(path),
  );
});

/** Fills in an existing id. */
function filled({ path }: ApiRoute): string {
  const collection = path.slice(0, Math.max(0, path.indexOf("/{")));
  return path.replaceAll(/\{\w+\}/g, ids.get(collection) ?? "x");
}

function expectNoFault(route: ApiRoute, sent: unknown, { status, body, text }: Answer): void {
  const known = status < 400 || Object.hasOwn(ERROR_CATALOGUE, String(body["code"]));
  expect({ route: route.path, sent, status, known, text }).toMatchObject({ known: true });
  expect({ route: route.path, sent, status, text: status >= 500 ? text : "" }).toMatchObject({ text: "" });
}

const MEMBERS = [
  "url",
  "events",
  "metadata",
  "description",
  "type",
  "data",
  "id",
  "occurred_at",
  "tenant_id",
  "ids",
];
const VALID = [
  { url: "https://example.com/", events: ["a.b"], metadata: {}, description: "x" },
  { type: "a.b", data: {}, id: "x", occurred_at: "2025-01-01T00:00:00Z" },
  { events: [{ type: "a.b", data: {} }] },
] as const;

const anyJson = fc.json({ maxDepth: 6, stringUnit: "binary" });
/** Body of known members with arbitrary values. */
const anyMembers = fc
  .dictionary(fc.constantFrom(...MEMBERS), fc.jsonValue({ maxDepth: 3, stringUnit: "binary" }))
  .map((members) => JSON.stringify(members));
/** Valid body with one arbitrary member. */
const nearlyValid = fc
  .tuple(fc.constantFrom(...VALID), fc.constantFrom(...MEMBERS), fc.jsonValue({ stringUnit: "binary" }))
  .map(([valid, member, value]) => JSON.stringify({ ...valid, [member]: value }));
/** Valid body with bytes removed, added or replaced. */
const damaged = fc
  .tuple(fc.constantFrom(...VALID), fc.nat(), fc.nat(8), fc.uint8Array({ maxLength: 8 }))
  .map(([valid, at, removed, added]) => {
    const bytes = [...Buffer.from(JSON.stringify(valid))];
    bytes.splice(at % bytes.length, removed, ...added);
    return Uint8Array.from(bytes);
  });

test("no body causes a 5xx at any route that writes", async () => {
  expect(writing.length).toBeGreaterThanOrEqual(5);
  for (const route of writing) {
    await fc.assert(
      fc.asyncProperty(fc.oneof(anyJson, anyMembers, nearlyValid, damaged), async (raw) => {
        expectNoFault(route, raw, await tenant.send(route.method, filled(route), { raw }));
      }),
      { numRuns: RUNS },
    );
  }
});

test("no query causes a 5xx at any list", async () => {
  const names = ["limit", "cursor", "state", "from", "to", "endpoint_id", "event_id", "event_type", "x"];
  const values = fc.oneof(
    fc.string({ unit: "binary", maxLength: 40 }),
    fc.stringMatching(/^(evt|ep|dlv)_[0-9a-hjkmnp-tv-z]{24}$/),
    fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
    fc.integer().map(String),
    fc.constantFrom("DELIVERED", "DEAD_LETTERED", "EXPIRED", "a.b"),
  );
  for (const list of [
    "/v1/webhooks/endpoints",
    "/v1/events",
    "/v1/webhooks/deliveries",
    "/v1/webhooks/dlq",
  ]) {
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.constantFrom(...names), values, { maxKeys: 3 }), async (query) => {
        // A lone surrogate cannot be percent-encoded.
        const text = new URLSearchParams({ ...query }).toString();
        const answer = await tenant.get(`${list}?${text}`);
        expectNoFault(
          { method: "GET", path: list, scopes: null, query: [], takesBody: false },
          query,
          answer,
        );
      }),
      { numRuns: RUNS },
    );
  }
});

test("no id causes a 5xx in any path", async () => {
  const members = (await apiRoutes(api)).filter(({ path }) => path.includes("{"));
  const id = fc.oneof(
    fc.string({ unit: "binary", minLength: 1, maxLength: 60 }).map((text) => encodeURIComponent(text)),
    fc.stringMatching(/^(evt|ep|dlv|crd)_[0-9a-hjkmnp-tv-z]{24}$/),
    fc.stringMatching(/^%[0-9a-f]{2}%?[0-9a-f]?$/),
  );
  for (const route of members) {
    await fc.assert(
      fc.asyncProperty(id, async (text) => {
        // A URL parser treats these as steps to another address, not as ids.
        fc.pre(!/^(\.|%2e){1,2}$/i.test(text));
        const answer = await tenant.send(route.method, route.path.replaceAll(/\{\w+\}/g, text));
        expectNoFault(route, text, answer);
        expect(answer.status).toBeGreaterThanOrEqual(400);
      }),
      { numRuns: RUNS / 2 },
    );
  }
});

test("the service still works after all these requests", async () => {
  expect(await tenant.post("/v1/events", { type: "a.b", data: {} })).toMatchObject({ status: 202 });
  expect(api.log.filter((line) => line.includes('"request failed"'))).toEqual([]);
});
