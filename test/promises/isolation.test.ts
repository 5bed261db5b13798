/**
 * Calls every route of the running API, read from its own description, with ids of another tenant.
 * A tenant must see none of another's resources. A new route with an id in its path fails here
 * until it is in the table.
 */
import { randomBytes } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { type IdNoun, newId } from "#domain/ids.ts";
import { type Answer, useTestApi } from "../support/api.ts";
import { grant } from "../support/factories.ts";
import { type ApiRoute, apiRoutes } from "../support/openapi.ts";
import {
  createEndpoint,
  createTenant,
  publish,
  rows,
  sql,
  type Tenant,
  WEBHOOK_SCOPES,
} from "../support/tenant.ts";

const api = useTestApi();
const SCOPES = [
  ...WEBHOOK_SCOPES,
  "credentials:read",
  "credentials:write",
  "credentials:revoke",
  "compliance:read",
  "ssf:manage",
  "ssf:read",
];

/** A tenant that has a resource for every id in a path. */
interface Owner {
  readonly tenant: Tenant;
  readonly endpoint: string;
  /** Grade of the endpoint. */
  readonly grade: string;
  /** Name of an event type, unique to its owner. */
  readonly eventType: string;
  readonly event: string;
  readonly delivery: string;
  readonly deadLetter: string;
  /** Replay job for `event`. */
  readonly replay: string;
  /** Credential other than the one that issued the tenant's token. */
  readonly credential: string;
  /** Poll stream of security events. */
  readonly stream: string;
  /** Index in the compliance log. */
  readonly entry: string;
}

let a: Owner;
let b: Owner;
let routes: readonly ApiRoute[];

async function catalogueType(tenant: Tenant): Promise<string> {
  const name = `of_${randomBytes(6).toString("hex")}.made`;
  const body = { name, schema: {}, examples: [{}] };
  expect(await tenant.post("/v1/webhooks/event-types", body)).toMatchObject({ status: 201, body: { name } });
  return name;
}

async function makeOwner(): Promise<Owner> {
  const tenant = await createTenant(api, SCOPES);
  const { id: endpoint } = await createEndpoint(api, tenant);
  // This one stays PENDING, so that a ping can be requested.
  await createEndpoint(api, tenant, { state: "PENDING" });
  const eventType = await catalogueType(tenant);
  const event = await publish(tenant);
  const dead = await publish(tenant);
  const deliveryOf = async (id: string): Promise<string> =>
    String(rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${id}`))[0]?.["id"]);
  const delivery = await deliveryOf(event);
  const deadLetter = await deliveryOf(dead);
  await sql(
    api,
    `UPDATE deliveries SET state = 'DEAD_LETTERED', reason = 'attempts_exhausted', attempt_count = 17,
      dead_lettered_at = now(), expires_at = now() + interval '7 days' WHERE id = $1`,
    [deadLetter],
  );
  await sql(
    api,
    `INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms, status)
      SELECT day, id, 1, 1, $2, tenant_id, now(), 1, 500 FROM deliveries WHERE id = $1`,
    [delivery, newId("attempt", Date.now(), randomBytes)],
  );
  const job = await tenant.post("/v1/webhooks/dlq/replay", { filter: { event_id: event } });
  const grade = newId("grade", Date.now(), randomBytes);
  await sql(
    api,
    `INSERT INTO endpoint_grades (id, tenant_id, endpoint_id, state, failure, created_at, finished_at)
      VALUES ($1, $2, $3, 'FAILED', 'interrupted', now(), now())`,
    [grade, tenant.tenantId, endpoint],
  );
  const { body } = await api.admin("POST", `/principals/${tenant.principalId}/credentials`, {});
  const stream = await tenant.post("/v1/ssf/streams", {});
  const [newest] = rows(await tenant.get("/v1/compliance/entries?limit=1"));
  return {
    tenant,
    endpoint,
    grade,
    eventType,
    event,
    delivery,
    deadLetter,
    replay: String(job.body["id"]),
    credential: String(body["id"]),
    stream: String(stream.body["stream_id"]),
    entry: String(newest?.["index"]),
  };
}

beforeAll(async () => {
  a = await makeOwner();
  b = await makeOwner();
  routes = await apiRoutes(api);
});

const unknownId = (noun: IdNoun) => (): string => newId(noun, Date.now(), randomBytes);

/** Ids by path prefix: an owner's id, and an id that never existed. The first match counts. */
const RESOURCES: Readonly<Record<string, { id: (owner: Owner) => string; never: () => string }>> = {
  "/v1/webhooks/endpoints/{id}/grades/{grade_id}": {
    never: () =>
      `${newId("endpoint", Date.now(), randomBytes)}/grades/${newId("grade", Date.now(), randomBytes)}`,
    id: ({ endpoint, grade }) => `${endpoint}/grades/${grade}`,
  },
  "/v1/webhooks/endpoints/{id}": { never: unknownId("endpoint"), id: ({ endpoint }) => endpoint },
  "/v1/webhooks/event-types/{name}": {
    never: () => `never_${randomBytes(6).toString("hex")}.made`,
    id: ({ eventType }) => eventType,
  },
  "/v1/events/{id}": { never: unknownId("event"), id: ({ event }) => event },
  "/v1/webhooks/deliveries/{id}": { never: unknownId("delivery"), id: ({ delivery }) => delivery },
  "/v1/webhooks/dlq/{id}": { never: unknownId("delivery"), id: ({ deadLetter }) => deadLetter },
  "/v1/webhooks/replays/{id}": { never: unknownId("replay"), id: ({ replay }) => replay },
  "/v1/ssf/poll/{stream_id}": { never: unknownId("stream"), id: ({ stream }) => stream },
  // Index of an entry in the log, which all tenants share.
  "/v1/compliance/entries/{idx}": { never: () => "999999999", id: ({ entry }) => entry },
  "/v1/credentials/{id}": { never: unknownId("credential"), id: ({ credential }) => credential },
};
/** Bodies of the routes that take one, by method and path. */
const BODIES: Readonly<Record<string, unknown>> = {
  "POST /v1/webhooks/endpoints/{id}/secret/rotate": {},
  "PATCH /v1/webhooks/endpoints/{id}/secret": {},
  "PATCH /v1/webhooks/endpoints/{id}": { description: "changed" },
  "POST /v1/webhooks/endpoints/{id}/test": { data: {} },
  "POST /v1/webhooks/endpoints/{id}/replay-missing": { since: "2025-01-01T00:00:00Z" },
  "POST /v1/credentials/{id}/revoke": { reason: "lost" },
  "PATCH /v1/webhooks/event-types/{name}": { description: "changed" },
  "POST /v1/credentials/{id}/signing-secret": { overlap_seconds: 60 },
  "POST /v1/credentials/{id}/signing-secret/revoke": { reason: "lost" },
  "PATCH /v1/credentials/{id}": { signature_required: false },
  "POST /v1/ssf/poll/{stream_id}": { returnImmediately: true, ack: ["set_1"] },
};

const nameOf = ({ method, path }: ApiRoute): string => `${method} ${path}`;

function resourceOf(route: ApiRoute): (typeof RESOURCES)[string] | undefined {
  return Object.entries(RESOURCES).find(
    ([path]) => route.path === path || route.path.startsWith(`${path}/`),
  )?.[1];
}

/** Returns the routes with an id in their path; those that change or delete come last. */
function members(): readonly ApiRoute[] {
  const rank = ({ method }: ApiRoute): number => (method === "GET" ? 0 : method === "DELETE" ? 2 : 1);
  // Well-known documents are public.
  return routes
    .filter(({ path }) => path.includes("{") && !path.startsWith("/.well-known/"))
    .sort((left, right) => rank(left) - rank(right));
}

async function call(route: ApiRoute, tenant: Tenant, id: string): Promise<Answer> {
  const body = BODIES[nameOf(route)];
  return await tenant.send(
    route.method,
    // An endpoint's grade takes two ids, which `id` already contains.
    route.path.replace(/\{\w+\}(?:\/grades\/\{\w+\})?/, id),
    body === undefined ? {} : { body },
  );
}

/** Returns the parts of an answer that could reveal whether an id exists. */
function comparable({ status, headers, body }: Answer): unknown {
  const { request_id: _request, instance: _instance, ...rest } = body;
  return { status, type: headers.get("content-type"), rest };
}

/** Returns all rows of `a` in the database. */
async function stateOfA(): Promise<unknown> {
  const tables = [
    "endpoints",
    "endpoint_secrets",
    "endpoint_grades",
    "event_types",
    "event_type_schemas",
    "events",
    "deliveries",
    "attempts",
    "replay_jobs",
    "replay_items",
    "credentials",
    "principals",
    "producer_secrets",
    "ssf_streams",
    "ssf_removed_subjects",
    "ssf_polled_sets",
  ];
  return await Promise.all(
    tables.map(
      async (table) =>
        await sql(api, `SELECT * FROM ${table} WHERE tenant_id = $1 ORDER BY 1, 2`, [a.tenant.tenantId]),
    ),
  );
}

test("every route with an id in its path is in the table above", () => {
  const uncovered = members().filter(
    (route) => resourceOf(route) === undefined || (route.takesBody && BODIES[nameOf(route)] === undefined),
  );
  expect(uncovered.map(nameOf)).toEqual([]);
  expect(members().length).toBeGreaterThanOrEqual(9);
});

describe("an id of another tenant", () => {
  test("gets the same answer from every route as an unknown id, and its resource stays unchanged", async () => {
    const before = await stateOfA();
    for (const route of members()) {
      const resource = resourceOf(route);
      if (resource === undefined) {
        continue;
      }
      const foreign = await call(route, b.tenant, resource.id(a));
      const never = await call(route, b.tenant, resource.never());
      expect({ route: nameOf(route), comparable: comparable(foreign) }).toEqual({
        route: nameOf(route),
        comparable: comparable(never),
      });
      expect({ route: nameOf(route), ...foreign.body }).toMatchObject({ status: 404, code: "NOT_FOUND" });
    }
    expect(await stateOfA()).toEqual(before);
  });

  test("is not revoked by what leaked of it, not even by a whole token or the secret itself", async () => {
    const before = await stateOfA();
    const { token, clientId, clientSecret, credentialId } = a.tenant;
    for (const target of [clientId, credentialId, clientSecret, token]) {
      expect(await b.tenant.post("/v1/revocations", { target })).toMatchObject({
        status: 404,
        body: { code: "NOT_FOUND" },
      });
    }
    expect(await a.tenant.get("/v1/credentials")).toMatchObject({ status: 200 });
    expect(await stateOfA()).toEqual(before);
  });

  test("is found by its own tenant, which proves that the ids above exist", async () => {
    for (const route of members()) {
      const { status } = await call(route, a.tenant, resourceOf(route)?.id(a) ?? "");
      expect({ route: nameOf(route), found: status !== 404 }).toEqual({ route: nameOf(route), found: true });
    }
  });
});

describe("lists", () => {
  const lists = (): readonly ApiRoute[] =>
    routes.filter(
      ({ path, method, query }) => method === "GET" && query.includes("cursor") && !path.includes("{"),
    );

  test("contain only rows of the caller's tenant", async () => {
    expect(lists().length).toBeGreaterThanOrEqual(5);
    const foreign = new Set([
      ...Object.values(a).filter((id) => typeof id === "string" && id !== a.entry),
      a.tenant.tenantId,
    ]);
    for (const { path } of lists()) {
      const answer = await b.tenant.get(`${path}?limit=100`);
      expect({ path, rows: rows(answer).length > 0 }).toEqual({ path, rows: true });
      const shown = [...answer.text.matchAll(/[a-z]{2,3}_[0-9a-hjkmnp-tv-z]{24}/g)].map(([id]) => id);
      expect({ path, foreign: shown.filter((id) => foreign.has(id)) }).toEqual({ path, foreign: [] });
    }
  });

  test.each(["endpoint_id", "event_id"])("filtered by a foreign %s are empty", async (filter) => {
    const filtered = lists().filter(({ query }) => query.includes(filter));
    expect(filtered.map(({ path }) => path)).toContain("/v1/webhooks/deliveries");
    const foreign = filter === "endpoint_id" ? a.endpoint : a.event;
    for (const { path } of filtered) {
      expect(rows(await b.tenant.get(`${path}?${filter}=${foreign}`))).toEqual([]);
    }
  });

  test("reject a cursor of another tenant", async () => {
    const fresh = await makeOwner();
    await makeMoreRows(fresh);
    for (const { path } of lists()) {
      const { body } = await fresh.tenant.get(`${path}?limit=1`);
      const cursor = String(body["next_cursor"]);
      expect({ path, more: body["next_cursor"] !== null }).toEqual({ path, more: true });
      expect(await fresh.tenant.get(`${path}?limit=1&cursor=${cursor}`)).toMatchObject({ status: 200 });
      expect(await b.tenant.get(`${path}?limit=1&cursor=${cursor}`)).toMatchObject({
        status: 400,
        body: { code: "INVALID_REQUEST" },
      });
    }
  });
});

/** Creates more rows, so that every list has at least two. */
async function makeMoreRows({ tenant }: Owner): Promise<void> {
  await createEndpoint(api, tenant, { state: "DISABLED" });
  await catalogueType(tenant);
  await publish(tenant);
  await tenant.post("/v1/webhooks/dlq/replay", { filter: {} });
}

describe("a suspended tenant", () => {
  test("gets no token until it is active again", async () => {
    const { tenant } = await makeOwner();
    await sql(api, "UPDATE tenants SET state = 'SUSPENDED' WHERE id = $1", [tenant.tenantId]);
    const refused = await api.token(grant(tenant));
    expect(refused).toMatchObject({ status: 401, body: { error: "invalid_client" } });
    expect(refused.body["access_token"]).toBeUndefined();
    await sql(api, "UPDATE tenants SET state = 'ACTIVE' WHERE id = $1", [tenant.tenantId]);
    expect(await api.token(grant(tenant))).toMatchObject({ status: 200 });
  });
});
