/** A table of bad inputs over every route there is: each is answered with a 4xx and a code, none with a 500. */
import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, useTestApi } from "../../support/api.ts";
import { accessToken, bearer, provision, type Provisioned } from "../../support/factories.ts";
import { adminRoutes } from "../../support/openapi.ts";
import { createOperator, type TestOperator } from "../../support/operators.ts";

const api = useTestApi();
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

/** Both listeners' routes, as they describe themselves. */
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

/** The path with an id that exists where there is one, so that the body is looked at. */
function filled(path: string): string {
  const collection = Object.keys(IDS).find((prefix) => path.startsWith(`${prefix}/`)) ?? "";
  const id = IDS[collection]?.() ?? own.credentialId;
  return path.replace("{id}", id).replaceAll(/\{\w+\}/g, own.roleId);
}

async function ask(route: Route, path: string, init: RequestInit = {}): Promise<Answer> {
  const admin = route.path.startsWith("/admin/");
  const response = await fetch((admin ? api.adminUrl : api.publicUrl) + path, {
    method: route.method,
    ...init,
    headers: {
      ...bearer(admin ? api.operatorToken : token),
      ...(init.body === undefined ? {} : { "content-type": "application/json" }),
      ...(init.headers as Record<string, string> | undefined),
    },
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: JSON.parse(text) as Record<string, unknown>,
  };
}

/** One line per answer that is not what it should be. */
async function offenders(
  inputs: readonly [string, (route: Route) => Promise<Answer>][],
  wanted: Route[],
  good: (answer: Answer) => boolean,
): Promise<string[]> {
  const found: string[] = [];
  for (const route of wanted) {
    for (const [name, send] of inputs) {
      const answer = await send(route);
      if (!good(answer)) {
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
  await ask(route, filled(route.path), { body: text });

describe("bodies", () => {
  const BODIES: [string, string | Uint8Array<ArrayBuffer>][] = [
    ["half of JSON", '{"name":'],
    ["a trailing comma", '{"name":"a",}'],
    ["a number", "1"],
    ["null", "null"],
    ["a list", "[]"],
    ["a text", '"name"'],
    ["two values", "{}{}"],
    ["a member twice", '{"name":"a","name":"b"}'],
    ["a member twice, once escaped", '{"name":"a","n\\u0061me":"b"}'],
    ["an unknown member", '{"surprise":1}'],
    ["__proto__", '{"__proto__":{"admin":true}}'],
    ["constructor", '{"constructor":{"prototype":{"admin":true}}}'],
    ["a NUL in every text", '{"name":"\\u0000","url":"\\u0000","type":"\\u0000","region":"\\u0000"}'],
    ["a lone surrogate", '{"name":"\\ud800","type":"\\ud800"}'],
    ["a number beyond a double", '{"name":1e999}'],
    [
      "the wrong type everywhere",
      '{"name":{},"region":[],"scopes":{"a":1},"url":1,"events":"x","type":[],"data":"x","ids":{},"role_id":1}',
    ],
    [
      "null everywhere",
      '{"name":null,"region":null,"scopes":null,"url":null,"events":null,"type":null,"data":null}',
    ],
    ["a depth of 1000", `${"[".repeat(1_000)}${"]".repeat(1_000)}`],
    ["an object of a depth of 1000", `${'{"a":'.repeat(1_000)}1${"}".repeat(1_000)}`],
    ["bytes that are no UTF-8", new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ["a byte order mark", "\u{feff}{}"],
    ["10,000 unknown members", `{${Array.from({ length: 5_000 }, (_, index) => `"a${index}":1`).join()}}`],
    ["5 MiB", `{"name":"${"x".repeat(5 * 1_048_576)}"}`],
  ];

  test.each(BODIES)("%s is refused wherever a body is read", async (name, text) => {
    const reading = (await routes()).filter(
      ({ method, path }) => method !== "GET" && !path.endsWith("/reprovision"),
    );
    expect(await offenders([[name, body(text)]], reading, refused)).toEqual([]);
  });

  test("a body that is too large is a 413 everywhere", async () => {
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
  ])("the type %s is refused wherever a body is read", async (type) => {
    const posts = (await routes()).filter(({ method }) => method !== "GET");
    const send = async (route: Route) =>
      await ask(route, filled(route.path), { body: "{}", headers: { "content-type": type } });
    expect(
      await offenders([[type, send]], posts, (answer) => answer.status === 415 && refused(answer)),
    ).toEqual([]);
  });

  test("a route that takes no body refuses one", async () => {
    const answer = await api.admin("POST", `/principals/${own.principalId}/reprovision`, { scopes: ["a:b"] });
    expect(answer).toMatchObject({ status: 422, body: { code: "VALIDATION_FAILED" } });
    expect(await api.admin("POST", `/principals/${own.principalId}/reprovision`, {})).toMatchObject({
      status: 200,
    });
  });
});

describe("paths", () => {
  const IDS_THAT_CANNOT_BE = [
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

  test.each(IDS_THAT_CANNOT_BE)("the id %s is nowhere found", async (id) => {
    const members = (await routes()).filter(({ path }) => path.includes("{"));
    expect(members.length).toBeGreaterThan(10);
    const send = async (route: Route) =>
      await ask(route, route.path.replaceAll(/\{\w+\}/g, id), route.method === "GET" ? {} : { body: "{}" });
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
    await ask(route, `${filled(route.path)}?${query}`, route.method === "GET" ? {} : { body: "{}" });

  test.each(QUERIES)("?%s is refused by every route", async (query) => {
    expect(await offenders([[query, send(query)]], await routes(), refused)).toEqual([]);
  });

  test.each(QUERIES)("?%s is what a list finds fault with", async (query) => {
    const lists = (await routes()).filter(({ method, path }) => method === "GET" && !path.includes("{"));
    expect(lists.length).toBeGreaterThan(3);
    const wanted = ({ status, body }: Answer) => status === 400 && body["code"] === "INVALID_REQUEST";
    expect(await offenders([[query, send(query)]], lists, wanted)).toEqual([]);
  });
});

describe("tokens", () => {
  test("no route but the public ones answers without a token", async () => {
    const open = new Set([
      // With credentials of the client itself; they have tests of their own.
      "/v1/auth/token",
      "/v1/auth/revoke",
      "/v1/auth/introspect",
      "/.well-known/jwks.json",
      "/.well-known/oauth-authorization-server",
      "/.well-known/webhooks/{id}/jwks.json",
    ]);
    const guarded = (await routes()).filter(({ path }) => !open.has(path));
    const send = async (route: Route) =>
      await ask(route, filled(route.path), {
        headers: { authorization: "" },
        ...(route.method === "GET" ? {} : { body: "{}" }),
      });
    expect(await offenders([["no token", send]], guarded, ({ status }) => status === 401)).toEqual([]);
  });
});
