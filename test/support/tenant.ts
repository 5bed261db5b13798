/** A tenant's view of the service: an access token and HTTP. */
import { Client } from "pg";
import { expect } from "vitest";
import { type IdNoun, idPattern } from "#domain/ids.ts";
import { type Answer, unlessStale } from "./answer.ts";
import type { ServiceUnderTest } from "./api.ts";
import { eventually } from "./eventually.ts";
import { accessToken, bearer, provision, type Provisioned } from "./factories.ts";

/** Every scope of the webhook routes (contract 5.7). */
export const WEBHOOK_SCOPES = [
  "webhooks:read",
  "webhooks:write",
  "webhooks:replay",
  "events:publish",
  "events:read",
] as const;

export interface TenantRequest {
  /** Body to send as JSON. */
  readonly body?: unknown;
  /** Raw body, by default as application/json. */
  readonly raw?: string | Uint8Array<ArrayBuffer>;
  readonly headers?: Readonly<Record<string, string>>;
}

export type Json = Readonly<Record<string, unknown>>;

export interface Tenant extends Provisioned {
  readonly token: string;
  /** Sends a request to the public API with this tenant's token, as `unlessStale`. Responses need a request id. */
  send(method: string, path: string, request?: TenantRequest): Promise<Answer>;
  get(path: string): Promise<Answer>;
  post(path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Answer>;
}

/** Matches an id of this noun. */
export function anId(noun: IdNoun): string {
  return expect.stringMatching(new RegExp(idPattern(noun))) as string;
}

/** Matches an RFC 3339 time in UTC with milliseconds (contract). */
export function anInstant(): string {
  return expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string;
}

/** Matches the summary of a receipt from the only process: on a busy machine it may be slow, but then it is safe. */
export const SAFE_SUMMARY = /The only process applied the revocation within \d+ ms\.|Slow but safe: /;

/** Matches the `edges` of a receipt from the only process, which admits no revoked token (contract 2.6). */
export function aSafeReceipt(): Json {
  return {
    live: 1,
    acked: expect.toBeOneOf([0, 1]),
    max_ms: expect.toBeOneOf([expect.any(Number), null]),
    outcome: expect.toBeOneOf(["applied", "slow_but_safe"]),
    summary: expect.stringMatching(SAFE_SUMMARY),
    processes: [
      {
        id: expect.stringMatching(/^api-[0-9a-f]{8}$/),
        kind: "api",
        region: null,
        state: expect.toBeOneOf(["applied", "lease_expired"]),
        ms: expect.toBeOneOf([expect.any(Number), null]),
      },
    ],
  };
}

/** Returns the same client with another token, for instance after the clock was advanced. */
export function asTenant(api: Pick<ServiceUnderTest, "request">, client: Provisioned, token: string): Tenant {
  const send: Tenant["send"] = async (method, path, { body, raw, headers } = {}) => {
    const content = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    return await unlessStale(async () => {
      const answer = await api.request(path, {
        method,
        headers: {
          ...bearer(token),
          ...(content === undefined ? {} : { "content-type": "application/json" }),
          ...headers,
        },
        ...(content === undefined ? {} : { body: content }),
      });
      expect(answer.headers.get("x-request-id")).toMatch(new RegExp(idPattern("request")));
      return answer;
    });
  };
  return {
    ...client,
    token,
    send,
    get: async (path) => await send("GET", path),
    post: async (path, body, headers = {}) => await send("POST", path, { body, headers }),
  };
}

/** Creates a tenant with a token. */
export async function createTenant(
  api: ServiceUnderTest,
  scopes: readonly string[] = WEBHOOK_SCOPES,
): Promise<Tenant> {
  const client = await provision(api, { scopes });
  return asTenant(api, client, await accessToken(api, client));
}

/** Requests a new token for the tenant, because the old one expires when a test advances the clock. */
export async function renew(api: ServiceUnderTest, tenant: Tenant): Promise<Tenant> {
  return asTenant(api, tenant, await accessToken(api, tenant));
}

/** Runs SQL as superuser, bypassing the API. */
export async function sql<Row extends object = Record<string, unknown>>(
  api: ServiceUnderTest,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const client = new Client({ connectionString: api.database.adminUrl });
  await client.connect();
  try {
    return (await client.query<Row>(text, [...values])).rows;
  } finally {
    await client.end();
  }
}

export interface EndpointOptions {
  readonly url?: string;
  readonly events?: readonly string[];
  readonly state?: "PENDING" | "ACTIVE" | "DISABLED";
  readonly metadata?: unknown;
  readonly filter?: unknown;
}

/** Registers an endpoint and sets its state without a ping, for tests without a worker. */
export async function createEndpoint(
  api: ServiceUnderTest,
  tenant: Tenant,
  options: EndpointOptions = {},
): Promise<{ readonly id: string; readonly secret: string }> {
  const { url = "http://127.0.0.1:19999/hook", events = ["inference.completed"], state = "ACTIVE" } = options;
  const { metadata, filter } = options;
  const answer = await tenant.post("/v1/webhooks/endpoints", {
    url,
    events,
    ...(metadata === undefined ? {} : { metadata }),
    ...(filter === undefined ? {} : { filter }),
  });
  expect(answer).toMatchObject({ status: 201, body: { state: "PENDING" } });
  const { id, secret } = answer.body as { id: string; secret: string };
  await sql(api, "UPDATE endpoints SET state = $2, disabled_reason = $3 WHERE id = $1", [
    id,
    state,
    state === "DISABLED" ? "tenant" : null,
  ]);
  return { id, secret };
}

/** Publishes one event and returns its id. */
export async function publish(tenant: Tenant, event: Json = {}): Promise<string> {
  const answer = await tenant.post("/v1/events", { type: "inference.completed", data: {}, ...event });
  expect(answer).toMatchObject({ status: 202 });
  return String(answer.body["id"]);
}

/** Returns the rows of one page. */
export function rows(answer: Answer): readonly Json[] {
  expect(answer).toMatchObject({ status: 200 });
  return answer.body["data"] as Json[];
}

/** Returns every row of a list, page by page. No page may exceed the limit, and only a sole page may be empty. */
export async function listAll(tenant: Tenant, path: string, limit: number): Promise<readonly Json[]> {
  const found: Json[] = [];
  let cursor: string | null = null;
  for (;;) {
    const separator = path.includes("?") ? "&" : "?";
    const next: string = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const answer = await tenant.get(`${path}${separator}limit=${limit}${next}`);
    const page = rows(answer);
    expect(page.length).toBeLessThanOrEqual(limit);
    found.push(...page);
    cursor = answer.body["next_cursor"] as string | null;
    if (cursor === null) {
      return found;
    }
    expect(page).toHaveLength(limit);
  }
}

/** Checks for a problem of the catalogue, in its media type, with the request's id. */
export function expectRefusal(answer: Answer, status: number, code: string): void {
  expect({ ...answer.body, http: answer.status }).toMatchObject({ http: status, status, code });
  expect(answer.headers.get("content-type")).toBe("application/problem+json");
  expect(answer.body["request_id"]).toBe(answer.headers.get("x-request-id"));
}

/** A tenant with an endpoint. */
export interface Owner {
  readonly tenant: Tenant;
  readonly endpointId: string;
}

/** Creates a tenant that may replay and read its log, with an active endpoint at the URL. */
export async function createOwner(api: ServiceUnderTest, url: string): Promise<Owner> {
  const tenant = await createTenant(api, [...WEBHOOK_SCOPES, "compliance:read"]);
  const { id: endpointId } = await createEndpoint(api, tenant, { url });
  return { tenant, endpointId };
}

/** Waits until a replay job is in the state, and returns the job. */
export async function replayInState(tenant: Tenant, job: Json, state: string): Promise<Json> {
  return await eventually(async () => {
    const { body } = await tenant.get(`/v1/webhooks/replays/${String(job["id"])}`);
    return body["state"] === state ? body : undefined;
  }, `the replay to be ${state}`);
}
