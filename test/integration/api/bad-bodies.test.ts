/** Sends bad inputs to every route. Each answer must be a 4xx with a code, never a 500. */
import { beforeAll, describe, expect, test } from "vitest";
import { readAnswer, unlessStale } from "#test/support/answer.ts";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import { accessToken, bearer, provision, type Provisioned } from "#test/support/factories.ts";
import { adminRoutes } from "#test/support/openapi.ts";
import { createOperator, type TestOperator } from "#test/support/operators.ts";

const api = useSharedApi();
let own: Provisioned;
let token: string;
let operator: TestOperator;

interface Route {
  readonly method: string;
  readonly path: string;
}

const SCOPES = [
  "compliance:read",
  "credentials:revoke",
  "credentials:read",
  "credentials:write",
  "events:publish",
  "events:read",
  "portal:sign_in",
  "ssf:manage",
  "ssf:read",
  "webhooks:read",
  "webhooks:write",
  "webhooks:replay",
];

beforeAll(async () => {
  own = await provision(api, { scopes: SCOPES });
  token = await accessToken(api, own);
  operator = await createOperator(api, "read");
});

async function tenantRoutes(): Promise<Route[]> {
  const { body } = await api.request("/openapi.json");
  const paths = Object.entries(body["paths"] as Record<string, Record<string, unknown>>);
  return paths.flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path })),
  );
}

/** Returns the routes of both listeners, as each listener describes them. */
async function routes(): Promise<Route[]> {
  const operators = await adminRoutes(api);
  const tenants = await tenantRoutes();
  expect(operators.length).toBeGreaterThan(20);
  expect(tenants.length).toBeGreaterThan(5);
  return [...operators.map(({ method, path }) => ({ method, path: `/admin/v1${path}` })), ...tenants];
}

const IDS: Readonly<Record<string, () => string>> = {
  "/admin/v1/tenants": () => own.tenantId,
  "/admin/v1/roles": () => own.roleId,
  "/admin/v1/principals": () => own.principalId,
  "/admin/v1/credentials": () => own.credentialId,
  "/admin/v1/operators": () => operator.id,
};

/** Fills in an existing id, if the path takes one, so that the route validates the body. */
function filled(path: string): string {
  const collection = Object.keys(IDS).find((prefix) => path.startsWith(`${prefix}/`)) ?? "";
  const id = IDS[collection]?.() ?? own.credentialId;
  return path.replace("{id}", id).replaceAll(/\{\w+\}/g, own.roleId);
}

async function sendRequest(route: Route, path: string, init: RequestInit = {}): Promise<Answer> {
  const admin = route.path.startsWith("/admin/");
  const request = {
    method: route.method,
    ...init,
    headers: {
      ...bearer(admin ? api.operatorToken : token),
      ...(init.body === undefined ? {} : { "content-type": "application/json" }),
      ...(init.headers as Record<string, string> | undefined),
    },
  };
  const url = (admin ? api.adminUrl : api.publicUrl) + path;
  return await unlessStale(async () => await readAnswer(await fetch(url, request)));
}

/** Returns one line for each unexpected answer. */
async function offenders(
  inputs: readonly [string, (route: Route) => Promise<Answer>][],
  checked: Route[],
  isExpected: (answer: Answer) => boolean,
): Promise<string[]> {
  const found: string[] = [];
  for (const route of checked) {
    for (const [name, send] of inputs) {
      const answer = await send(route);
      if (!isExpected(answer)) {
        found.push(
          `${route.method} ${route.path} with ${name}: ${answer.status} ${answer.text.slice(0, 200)}`,
        );
      }
    }
  }
  return found;
}

const refused = ({ status, body, headers }: Answer): boolean =>
  status >= 400 &&
  status < 500 &&
  typeof body["code"] === "string" &&
  body["request_id"] === headers.get("x-request-id");

const body = (text: string | Uint8Array<ArrayBuffer>) => async (route: Route) =>
  await sendRequest(route, filled(route.path), { body: text });

describe("bodies", () => {
  const BODIES: [string, string | Uint8Array<ArrayBuffer>][] = [
    ["truncated JSON", '{"name":'],
    ["a trailing comma", '{"name":"a",}'],
    ["a number", "1"],
    ["null", "null"],
    ["an array", "[]"],
    ["a string", '"name"'],
    ["two values", "{}{}"],
    ["a duplicate member", '{"name":"a","name":"b"}'],
    ["a duplicate member, once escaped", '{"name":"a","n\\u0061me":"b"}'],
    ["an unknown member", '{"surprise":1}'],
    ["__proto__", '{"__proto__":{"admin":true}}'],
    ["constructor", '{"constructor":{"prototype":{"admin":true}}}'],
    ["a NUL in every string", '{"name":"\\u0000","url":"\\u0000","type":"\\u0000","region":"\\u0000"}'],
    ["a lone surrogate", '{"name":"\\ud800","type":"\\ud800"}'],
    ["a number too large for a double", '{"name":1e999}'],
    [
      "the wrong type everywhere",
      '{"name":{},"region":[],"scopes":{"a":1},"url":1,"events":"x","type":[],"data":"x","ids":{},"role_id":1}',
    ],
    [
      "null everywhere",
      '{"name":null,"region":null,"scopes":null,"url":null,"events":null,"type":null,"data":null}',
    ],
    ["arrays nested 1000 deep", `${"[".repeat(1_000)}${"]".repeat(1_000)}`],
    ["objects nested 1000 deep", `${'{"a":'.repeat(1_000)}1${"}".repeat(1_000)}`],
    ["invalid UTF-8", new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ["a byte order mark within", "{\u{feff}}"],
    ["10,000 unknown members", `{${Array.from({ length: 5_000 }, (_, index) => `"a${index}":1`).join()}}`],
    ["5 MiB", `{"name":"${"x".repeat(5 * 1_048_576)}"}`],
  ];

  test.each(BODIES)("%s is rejected by every route that reads a body", async (name, text) => {
    const reading = (await routes()).filter(
      ({ method, path }) => method !== "GET" && !path.endsWith("/reprovision"),
    );
    expect(await offenders([[name, body(text)]], reading, refused)).toEqual([]);
  });

  test("every route answers 413 to a body that is too large", async () => {
    const large = JSON.stringify({ name: "x".repeat(5 * 1_048_576) });
    const posts = (await routes()).filter(
      ({ method, path }) => method === "POST" && path.startsWith("/admin/"),
    );
    expect(await offenders([["5 MiB", body(large)]], posts, ({ status }) => status === 413)).toEqual([]);
  });

  test.each([
    "text/plain",
    "application/xml",
    "multipart/form-data; boundary=x",
    "application/json-patch+json",
    "x",
  ])("the content type %s is rejected by every route that reads a body", async (type) => {
    const posts = (await routes()).filter(({ method }) => method !== "GET");
    const send = async (route: Route) =>
      await sendRequest(route, filled(route.path), { body: "{}", headers: { "content-type": type } });
    expect(
      await offenders([[type, send]], posts, (answer) => answer.status === 415 && refused(answer)),
    ).toEqual([]);
  });

  test("a route that takes no body rejects one", async () => {
    const answer = await api.admin("POST", `/principals/${own.principalId}/reprovision`, { scopes: ["a:b"] });
    expect(answer).toMatchObject({ status: 422, body: { code: "VALIDATION_FAILED" } });
    expect(await api.admin("POST", `/principals/${own.principalId}/reprovision`, {})).toMatchObject({
      status: 200,
    });
  });
});

describe("paths", () => {
  const INVALID_IDS = [
    "%00",
    "x",
    "..%2f..%2fetc",
    "%27%20OR%201=1--",
    "ten_00000000000000000000000%00",
    "TEN_000000000000000000000000",
    "%F0%9F%92%A9",
    "a".repeat(100),
    "a".repeat(3_000),
  ];

  test.each(INVALID_IDS)("no route finds the id %s", async (id) => {
    const members = (await routes()).filter(({ path }) => path.includes("{"));
    expect(members.length).toBeGreaterThan(10);
    const send = async (route: Route) =>
      await sendRequest(
        route,
        route.path.replaceAll(/\{\w+\}/g, id),
        route.method === "GET" ? {} : { body: "{}" },
      );
    expect(await offenders([[id, send]], members, ({ status }) => status === 404)).toEqual([]);
  });
});

describe("queries", () => {
  const QUERIES = [
    "x=1",
    "limit=0",
    "limit=x",
    "limit=1e1",
    "cursor=x",
    "cursor=%00",
    "limit=1&limit=2",
    "%zz=1",
    "limit=%F0",
  ];

  const send = (query: string) => async (route: Route) =>
    await sendRequest(route, `${filled(route.path)}?${query}`, route.method === "GET" ? {} : { body: "{}" });

  test.each(QUERIES)("every route rejects the query ?%s", async (query) => {
    expect(await offenders([[query, send(query)]], await routes(), refused)).toEqual([]);
  });

  test.each(QUERIES)("every list rejects the query ?%s as INVALID_REQUEST", async (query) => {
    const lists = (await routes()).filter(({ method, path }) => method === "GET" && !path.includes("{"));
    expect(lists.length).toBeGreaterThan(3);
    const wanted = ({ status, body }: Answer) => status === 400 && body["code"] === "INVALID_REQUEST";
    expect(await offenders([[query, send(query)]], lists, wanted)).toEqual([]);
  });
});

describe("tokens", () => {
  test("only the public routes answer without a token", async () => {
    const open = new Set([
      // These take the client's own credentials; they have tests of their own.
      "/v1/auth/token",
      "/v1/auth/revoke",
      "/v1/auth/introspect",
      "/.well-known/jwks.json",
      "/.well-known/oauth-authorization-server",
      "/.well-known/ssf-configuration",
      "/.well-known/status-lists",
      "/.well-known/status-lists/{id}",
      "/.well-known/webhooks/{id}/jwks.json",
    ]);
    const guarded = (await routes()).filter(({ path }) => !open.has(path));
    const send = async (route: Route) =>
      await sendRequest(route, filled(route.path), {
        headers: { authorization: "" },
        ...(route.method === "GET" ? {} : { body: "{}" }),
      });
    expect(await offenders([["no token", send]], guarded, ({ status }) => status === 401)).toEqual([]);
  });
});
