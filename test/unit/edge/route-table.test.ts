/** A route table is valid, or every fault in it is reported. */
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { readRouteTable, type RouteTableError } from "#edge/route-table.ts";

const KEY = randomBytes(32).toString("base64");
const SOURCES = {
  environment: (name: string) => (name === "DATA_KEY" ? KEY : undefined),
  file: (path: string): string => {
    if (path !== "data.key") {
      throw new Error(`${path} is not there`);
    }
    return `${KEY}\n`;
  },
  checksOnly: false,
};
const UPSTREAM = { url: "http://127.0.0.1:9000", identity_key: KEY };
const ROUTE = { method: "GET", path: "/v1/inference/{model}", scope: "inference:read", upstream: "data" };

const read = (table: unknown) =>
  readRouteTable(
    typeof table === "string" ? Buffer.from(table) : Buffer.from(JSON.stringify(table)),
    SOURCES,
  );

function problems(table: unknown): readonly string[] {
  try {
    read(table);
  } catch (error) {
    return (error as RouteTableError).problems;
  }
  return [];
}

const withRoutes = (...routes: object[]) => ({
  upstreams: { data: UPSTREAM },
  routes: routes.map((route) => ({ ...ROUTE, ...route })),
});
const withUpstream = (upstream: object) => ({
  upstreams: { data: { ...UPSTREAM, ...upstream } },
  routes: [ROUTE],
});

test("a file of authorities without any is a fault", () => {
  expect(problems(withUpstream({ ca_file: "data.key" }))).toEqual([
    "upstreams.data: ca_file has no certificate in PEM",
  ]);
});

test("a table states what each route accepts and where it leads", () => {
  const [route, other] = read({
    upstreams: {
      data: { url: "https://data.internal:8443/", identity_key_file: "data.key", headers_timeout_ms: 5 },
    },
    routes: [
      { ...ROUTE, region: ["eu", "us-east-1"], forward_authorization: true, body_limit_bytes: 0 },
      { ...ROUTE, method: ["GET", "POST"], path: "/v1/files/*", scope: ["a:b", "c:d"] },
    ],
  });
  expect(route).toMatchObject({
    methods: ["GET"],
    path: "/v1/inference/:model",
    scopes: ["inference:read"],
    regions: ["eu", "us-east-1"],
    forwardAuthorization: true,
    bodyLimit: 0,
    upstream: { origin: "https://data.internal:8443", headersTimeoutMs: 5 },
  });
  expect(route?.upstream.identityKey.export().toString("base64")).toBe(KEY);
  expect(other).toMatchObject({ methods: ["GET", "POST"], path: "/v1/files/*", scopes: ["a:b", "c:d"] });
});

test("a table of routes that are only checked needs no addresses, and may have paths of the API", () => {
  const table = {
    upstreams: { data: { identity_key: KEY } },
    routes: [{ ...ROUTE, path: "/v1/events" }],
  };
  const [route] = readRouteTable(Buffer.from(JSON.stringify(table)), { ...SOURCES, checksOnly: true });
  expect(route).toMatchObject({ path: "/v1/events", upstream: { origin: "" } });
  expect(problems(table)).toEqual([
    "upstreams.data: must have a url",
    expect.stringMatching(/path is reserved for the service's own API/),
  ]);
});

test("an identity key may be in the environment", () => {
  expect(problems(withUpstream({ identity_key: undefined, identity_key_env: "DATA_KEY" }))).toEqual([]);
});

test.each([
  ["no JSON", "{", /JSON/],
  ["a member twice", '{"upstreams":{},"routes":[],"routes":[]}', /repeated/],
  ["an unknown member", { upstreams: {}, routes: [], listen: 1 }, /listen is unknown/],
  ["no routes", { upstreams: {} }, /routes is required/],
  ["an unknown member of a route", withRoutes({ scopes: "a:b" }), /scopes is unknown/],
  ["an unknown upstream", withRoutes({ upstream: "other" }), /upstream other is not in upstreams/],
  ["an invalid scope", withRoutes({ scope: "inference" }), /scope must be/],
  ["a scope with a wildcard", withRoutes({ scope: "inference:*" }), /scope must be/],
  ["no scope", withRoutes({ scope: [] }), /scope/],
  ["an unknown method", withRoutes({ method: "TRACE" }), /method must be one or more of/],
  ["a method in small letters", withRoutes({ method: "get" }), /method must be one or more of/],
  ["an invalid region", withRoutes({ region: "Europe" }), /region must be/],
  ["a path without a slash", withRoutes({ path: "v1" }), /must begin with/],
  ["the root", withRoutes({ path: "/" }), /must begin with/],
  ["an empty segment", withRoutes({ path: "/v1//a" }), /segment ""/],
  ["dots", withRoutes({ path: "/v1/../a" }), /segment "\.\."/],
  ["an escape", withRoutes({ path: "/v1/%61" }), /segment "%61"/],
  ["the router's own syntax", withRoutes({ path: "/v1/:id(.*)" }), /segment ":id/],
  ["a star in the middle", withRoutes({ path: "/v1/*/a" }), /segment "\*"/],
  ["everything", withRoutes({ path: "/*" }), /segment "\*"/],
  ["half a parameter", withRoutes({ path: "/v1/a{b}" }), /segment "a\{b\}"/],
  ["a parameter twice", withRoutes({ path: "/v1/{a}/{a}" }), /must not repeat a parameter/],
  ["the API's own address", withRoutes({ path: "/v1/webhooks/endpoints" }), /service's own API/],
  ["a path that covers the API's address", withRoutes({ path: "/v1/*" }), /service's own API/],
  ["an API address under a parameter", withRoutes({ path: "/{a}/events" }), /service's own API/],
  ["readiness", withRoutes({ path: "/readyz" }), /service's own API/],
  ["the operators' address", withRoutes({ path: "/admin/v1/x" }), /service's own API/],
  ["the same route twice", withRoutes({}, { path: "/v1/inference/{other}" }), /GET .* occurs twice/],
  ["one of two methods twice", withRoutes({}, { method: ["POST", "GET"] }), /GET .* occurs twice/],
  ["an ambiguous pair", withRoutes({ path: "/x/{a}/c" }, { path: "/x/b/{d}" }), /neither is more specific/],
  ["no identity key", withUpstream({ identity_key: undefined }), /identity_key/],
  ["two identity keys", withUpstream({ identity_key_env: "DATA_KEY" }), /one of identity_key/],
  [
    "an unset variable",
    withUpstream({ identity_key: undefined, identity_key_env: "X" }),
    /source must exist/,
  ],
  ["a missing file", withUpstream({ identity_key: undefined, identity_key_file: "x" }), /x is not there/],
  ["a short identity key", withUpstream({ identity_key: "AAAA" }), /32 bytes/],
  ["a URL with a path", withUpstream({ url: "http://data/base" }), /without a path/],
  ["a URL with a login", withUpstream({ url: "http://a:b@data" }), /without a path/],
  ["another scheme", withUpstream({ url: "ftp://data" }), /http/],
] as [string, unknown, RegExp][])("rejects: %s", (_name, table, reason) => {
  expect(problems(table).join("\n")).toMatch(reason);
});

test("all faults are reported at once, with their places", () => {
  const found = problems({
    upstreams: { data: { ...UPSTREAM, url: "x" } },
    routes: [
      { ...ROUTE, scope: "a" },
      { ...ROUTE, upstream: "none", path: "//" },
    ],
  });
  expect(found).toEqual([
    expect.stringMatching(/^upstreams\.data: url/),
    expect.stringMatching(/^routes\[0\] \(GET \/v1\/inference\/\{model\}\): scope/),
    expect.stringMatching(/^routes\[1\] \(GET \/\/\): upstream none/),
    expect.stringMatching(/^routes\[1\] .*: path segment/),
  ]);
});

test("a specific route beside a general one is no conflict", () => {
  const table = withRoutes(
    { path: "/x/{a}" },
    { path: "/x/b" },
    { path: "/x/*" },
    { method: "POST", path: "/x/{c}" },
  );
  expect(problems(table)).toEqual([]);
});
