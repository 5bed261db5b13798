/**
 * The names of the public contract: every route, member, state, scope, id and message that the wire decisions name
 * exists with that spelling. docs/decisions/0023 lists the additions.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { readOpenApi, withoutReferences } from "#tools/openapi-schema.ts";
import { ID_PREFIXES } from "#domain/ids.ts";
import { ATTEMPT_ERRORS, DEAD_LETTER_REASONS, DELIVERY_STATES } from "#domain/delivery.ts";
import { DISABLED_REASONS, ENDPOINT_STATES } from "#domain/endpoint-state.ts";
import * as messages from "#workflows/messages.ts";

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly enum?: readonly unknown[];
}
interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}
interface Operation {
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly { readonly in: string; readonly name: string }[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

let document: Document;

beforeAll(async () => {
  const read = async (audience: "tenants" | "operators"): Promise<Document> =>
    withoutReferences(await readOpenApi(audience)) as unknown as Document;
  const tenants = await read("tenants");
  const operators = await read("operators");
  document = { paths: { ...operators.paths, ...tenants.paths } };
});

function operation(route: string): Operation {
  const [method = "", path = ""] = route.split(" ");
  const found = document.paths[path]?.[method.toLowerCase()];
  if (found === undefined) {
    throw new Error(`there is no ${route}`);
  }
  return found;
}

/** Returns all members that the schema can have, by name. */
function membersOf(schema: Schema | undefined): Readonly<Record<string, Schema>> {
  const own = schema?.properties ?? {};
  return Object.assign({}, own, ...(schema?.anyOf ?? []).map(membersOf)) as Record<string, Schema>;
}

function bodyOf(content: Content | undefined): Schema | undefined {
  return content?.content?.["application/json"]?.schema;
}

function answered(route: string, status: number): Readonly<Record<string, Schema>> {
  const answer = operation(route).responses[String(status)];
  if (answer === undefined) {
    throw new Error(`${route} does not answer ${status}`);
  }
  return membersOf(bodyOf(answer));
}

function scopesOf(route: string): readonly string[] {
  return (operation(route).security ?? []).flatMap((requirement) => Object.values(requirement).flat());
}

const ENDPOINTS = "/v1/webhooks/endpoints";
const DELIVERIES = "/v1/webhooks/deliveries";
const DLQ = "/v1/webhooks/dlq";
const ENDPOINT = [
  ..."id url events metadata description state disabled_reason created_at updated_at".split(" "),
  "verification",
];
const DELIVERY = [
  ..."id event_id event_type endpoint_id state cycle attempt_count next_attempt_at last_status".split(" "),
  ..."last_error workflow_id created_at delivered_at dead_lettered_at expires_at".split(" "),
];
const REPLAY = ["id", "state", "total", "done", "failed"];

test.each<[string, number, readonly string[]]>([
  ["POST /admin/v1/tenants", 201, ["id", "name", "region", "state", "created_at"]],
  ["POST /admin/v1/tenants/{id}/roles", 201, ["id"]],
  ["POST /admin/v1/tenants/{id}/principals", 201, ["id", "scopes"]],
  [
    "POST /admin/v1/principals/{id}/credentials",
    201,
    ["id", "client_id", "client_secret", "version", "created_at"],
  ],
  ["GET /admin/v1/tenants", 200, ["data", "next_cursor"]],
  ["GET /admin/v1/tenants/{id}/roles", 200, ["data", "next_cursor"]],
  ["GET /admin/v1/tenants/{id}/principals", 200, ["data", "next_cursor"]],
  ["GET /admin/v1/principals/{id}/credentials", 200, ["data", "next_cursor"]],
  [
    "POST /v1/auth/token",
    200,
    ["access_token", "token_type", "expires_in", "scope", "token", "credential_rotation"],
  ],
  [`POST ${ENDPOINTS}`, 201, [...ENDPOINT, "secret"]],
  [`GET ${ENDPOINTS}/{id}`, 200, ENDPOINT],
  [`GET ${ENDPOINTS}`, 200, ["data", "next_cursor"]],
  ["POST /v1/events", 202, ["id", "type", "created_at", "deliveries", "data"]],
  [`GET ${DELIVERIES}`, 200, ["data", "next_cursor"]],
  [`GET ${DELIVERIES}/{id}`, 200, DELIVERY],
  [`GET ${DELIVERIES}/{id}/attempts`, 200, ["data"]],
  [`GET ${DLQ}`, 200, ["data", "next_cursor"]],
  [`GET ${DLQ}/{id}`, 200, [...DELIVERY, "reason", "event"]],
  [`POST ${DLQ}/{id}/replay`, 202, DELIVERY],
  [`POST ${DLQ}/replay`, 202, REPLAY],
  [`POST ${DLQ}/replay`, 200, ["dry_run", "total"]],
  ["GET /v1/credentials", 200, ["data", "next_cursor"]],
])("%s answers %i with every named member", (route, status, names) => {
  expect(Object.keys(answered(route, status))).toEqual(expect.arrayContaining([...names]));
});

test.each<[string, readonly string[], readonly string[]]>([
  ["POST /admin/v1/tenants", ["name", "region"], []],
  ["POST /admin/v1/tenants/{id}/roles", ["name", "scopes"], []],
  ["POST /admin/v1/tenants/{id}/principals", ["name", "role_id", "region", "environment"], []],
  ["POST /admin/v1/principals/{id}/credentials", [], ["san_uri", "certificate_thumbprints"]],
  ["POST /v1/auth/token", ["grant_type"], ["client_id", "client_secret", "scope"]],
  [`POST ${ENDPOINTS}`, ["url", "events"], ["metadata", "description"]],
  [`POST ${DLQ}/replay`, [], ["ids", "filter", "dry_run", "rate_per_second"]],
])("%s requires exactly the named members", (route, required, optional) => {
  const body = bodyOf(operation(route).requestBody);
  expect(body?.required ?? []).toEqual(required.filter((name) => name !== ""));
  expect(Object.keys(membersOf(body))).toEqual(expect.arrayContaining([...required, ...optional]));
});

test("an event and a batch accept the named members", () => {
  const [event, batch] = bodyOf(operation("POST /v1/events").requestBody)?.anyOf ?? [];
  expect(event?.required).toEqual(["type", "data"]);
  expect(Object.keys(membersOf(event))).toEqual(
    expect.arrayContaining(["type", "data", "id", "occurred_at", "tenant_id"]),
  );
  expect(batch?.required).toEqual(["events"]);
});

test("an attempt and a verification have the named members", () => {
  const attempts = answered(`GET ${DELIVERIES}/{id}/attempts`, 200)["data"]?.items;
  expect(Object.keys(membersOf(attempts))).toEqual(
    expect.arrayContaining("id cycle attempt started_at duration_ms status error response_body".split(" ")),
  );
  const { verification } = answered(`GET ${ENDPOINTS}/{id}`, 200);
  expect(Object.keys(membersOf(verification))).toEqual(
    expect.arrayContaining(["workflow_id", "attempts", "last_error", "next_attempt_at"]),
  );
});

test.each([DELIVERIES, DLQ])("GET %s accepts every named filter", (path) => {
  const names = (operation(`GET ${path}`).parameters ?? []).map(({ name }) => name);
  expect(names).toEqual(
    expect.arrayContaining("endpoint_id event_id event_type state from to limit cursor".split(" ")),
  );
});

test.each<[string, string]>([
  [`POST ${ENDPOINTS}`, "webhooks:write"],
  [`GET ${ENDPOINTS}`, "webhooks:read"],
  [`GET ${ENDPOINTS}/{id}`, "webhooks:read"],
  [`PATCH ${ENDPOINTS}/{id}`, "webhooks:write"],
  [`DELETE ${ENDPOINTS}/{id}`, "webhooks:write"],
  [`POST ${ENDPOINTS}/{id}/verify`, "webhooks:write"],
  [`POST ${ENDPOINTS}/{id}/enable`, "webhooks:write"],
  [`POST ${ENDPOINTS}/{id}/disable`, "webhooks:write"],
  [`POST ${ENDPOINTS}/{id}/test`, "webhooks:write"],
  [`POST ${ENDPOINTS}/{id}/secret/rotate`, "webhooks:write"],
  [`POST ${ENDPOINTS}/{id}/secret/activate`, "webhooks:write"],
  ["GET /v1/webhooks/event-types", "webhooks:read"],
  ["POST /v1/webhooks/event-types", "webhooks:write"],
  ["POST /v1/events", "events:publish"],
  ["GET /v1/events", "events:read"],
  ["GET /v1/events/{id}", "events:read"],
  [`GET ${DELIVERIES}`, "webhooks:read"],
  [`GET ${DELIVERIES}/{id}`, "webhooks:read"],
  [`GET ${DELIVERIES}/{id}/attempts`, "webhooks:read"],
  [`POST ${DELIVERIES}/{id}/retry`, "webhooks:write"],
  [`POST ${DELIVERIES}/{id}/cancel`, "webhooks:write"],
  [`GET ${DELIVERIES}/stream`, "webhooks:read"],
  ["GET /v1/webhooks/stats", "webhooks:read"],
  [`GET ${DLQ}`, "webhooks:read"],
  [`GET ${DLQ}/{id}`, "webhooks:read"],
  [`POST ${DLQ}/{id}/replay`, "webhooks:replay"],
  [`POST ${DLQ}/replay`, "webhooks:replay"],
  ["POST /v1/webhooks/replays/{id}/pause", "webhooks:replay"],
  ["POST /v1/webhooks/replays/{id}/resume", "webhooks:replay"],
  ["POST /v1/webhooks/replays/{id}/cancel", "webhooks:replay"],
  ["GET /v1/credentials", "credentials:read"],
  ["GET /v1/credentials/{id}", "credentials:read"],
  ["POST /v1/credentials", "credentials:write"],
  ["POST /v1/credentials/{id}/revoke", "credentials:revoke"],
  ["GET /v1/compliance/entries", "compliance:read"],
  ["GET /v1/compliance/checkpoint", "compliance:read"],
  ["GET /v1/compliance/proof/inclusion", "compliance:read"],
  ["GET /v1/compliance/proof/consistency", "compliance:read"],
  ["POST /v1/portal/links", "portal:sign_in"],
])("%s exists and requires %s", (route, scope) => {
  expect(scopesOf(route)).toEqual([scope]);
});

test("the public routes exist", () => {
  for (const route of [
    "POST /v1/auth/token",
    "POST /v1/auth/revoke",
    "POST /v1/auth/introspect",
    "GET /.well-known/oauth-authorization-server",
    "GET /.well-known/jwks.json",
    "GET /.well-known/webhooks/{id}/jwks.json",
  ]) {
    expect(operation(route).responses["200"]).toBeDefined();
  }
});

describe("words", () => {
  test("states, reasons and error classes", () => {
    expect([...DELIVERY_STATES]).toEqual(
      "QUEUED RETRYING DELIVERED DEAD_LETTERED EXPIRED CANCELLED".split(" "),
    );
    expect([...ENDPOINT_STATES].toSorted()).toEqual(["ACTIVE", "DISABLED", "PENDING"]);
    expect([...DISABLED_REASONS]).toEqual(expect.arrayContaining(["tenant", "failing"]));
    expect([...DEAD_LETTER_REASONS]).toEqual(["attempts_exhausted", "endpoint_disabled"]);
    // `authentication` is an addition: docs/decisions/0023.
    expect([...ATTEMPT_ERRORS].toSorted()).toEqual(
      "aborted authentication connect dns refused status timeout tls".split(" "),
    );
    expect(answered(`POST ${DLQ}/replay`, 202)["state"]?.enum).toEqual(
      expect.arrayContaining(["RUNNING", "PAUSED", "COMPLETED", "CANCELLED"]),
    );
  });

  test("prefixes of ids", () => {
    const named = "ten rol prn crd ep evt dlv bat att rpl rev key req chk".split(" ");
    expect(Object.values(ID_PREFIXES)).toEqual(expect.arrayContaining(named));
  });

  test("signals, queries and search attributes of workflows", () => {
    const names = (suffix: string): string[] =>
      Object.entries(messages)
        .filter(([name]) => name.endsWith(suffix))
        .map(([, message]) => (message as { readonly name: string }).name);
    expect(new Set(names("Signal"))).toEqual(
      new Set(["replay", "attemptNow", "cancel", "release", "pause", "resume", "rowChanged"]),
    );
    expect(names("Query")).toEqual(["status", "status", "status"]);
    const { SEARCH_ATTRIBUTES } = messages;
    expect(Object.values(SEARCH_ATTRIBUTES).map(({ name, type }) => `${name} ${type}`)).toEqual([
      "SignetTenant KEYWORD_LIST",
      "SignetEndpoint KEYWORD_LIST",
      "SignetDelivery KEYWORD_LIST",
      "SignetState KEYWORD",
      "SignetOpen INT",
      "SignetAttempt INT",
      "SignetDead INT",
      "SignetExpires DATETIME",
    ]);
  });
});
