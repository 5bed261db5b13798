/** Public documents: rendered once, cached by ETag, and rate-limited. HEAD works wherever GET does. */
import { gunzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { readAnswer } from "#test/support/answer.ts";
import { exchange, useSharedApi, useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { bearer } from "#test/support/factories.ts";
import { adminRoutes, apiRoutes } from "#test/support/openapi.ts";
import { createEndpoint, createTenant, type Tenant, WEBHOOK_SCOPES } from "#test/support/tenant.ts";

const api = useSharedApi();
/** Two at once. What some megabytes cost takes seconds to come back. */
const limited = useTestApi({ environment: { SIGNET_PUBLIC_RATE_PER_ADDRESS: "2" } });
const SCOPES = [...WEBHOOK_SCOPES, "credentials:read", "compliance:read", "portal:sign_in"];
let tenant: Tenant;
beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
});

const HTML = { accept: "text/html" };
const SHARED = { "access-control-allow-origin": "*" };
const DOCUMENTS: readonly [
  path: string,
  headers: Record<string, string>,
  answered: Record<string, string>,
][] = [
  ["/openapi.json", {}, SHARED],
  ["/.well-known/jwks.json", {}, SHARED],
  ["/.well-known/oauth-authorization-server", {}, SHARED],
  ["/errors/not-found", {}, SHARED],
  ["/errors/not-found", HTML, {}],
  ["/docs", {}, {}],
  ["/", HTML, {}],
  ["/docs/start.js", {}, {}],
  ["/docs/scalar.js", {}, {}],
  ["/docs/guide", {}, {}],
  ["/docs/guide/endpoints", {}, {}],
  ["/docs/guide/architecture.svg", {}, {}],
  ["/docs/guide/search.json", {}, {}],
];

test("a document of some megabytes counts as several requests of its address", async () => {
  expect((await limited.request("/docs/scalar.js", { method: "HEAD" })).status).toBe(200);
  const answer = await fetch(`${limited.publicUrl}/docs/scalar.js`);
  expect(answer.status).toBe(200);
  // Not read: meanwhile, its address would be allowed further requests.
  await answer.body?.cancel();
  expect((await limited.request("/docs/start.js")).status).toBe(429);
});

test("the base address points programs to the documentation", async () => {
  const answer = await api.request("/");
  expect(answer).toMatchObject({
    status: 404,
    body: { code: "NOT_FOUND", detail: expect.stringContaining(`${api.publicUrl}/docs`) as string },
  });
  expect(answer.headers.get("link")).toBe('</docs>; rel="service-doc"');
});

describe.each(DOCUMENTS)("%s %j", (path, headers, answered) => {
  const get = async (more: Record<string, string> = {}, method = "GET") =>
    await fetch(api.publicUrl + path, {
      method,
      headers: { "accept-encoding": "identity", ...headers, ...more },
    });

  test("answers 304 to a client that has it", async () => {
    const first = await get();
    const etag = first.headers.get("etag") ?? "";
    expect(Object.fromEntries(first.headers)).toMatchObject(answered);
    expect((await first.arrayBuffer()).byteLength).toBe(Number(first.headers.get("content-length")));
    for (const tag of [etag, `"other", ${etag}`, etag.replace("W/", ""), "*"]) {
      const again = await get({ "if-none-match": tag });
      expect([again.status, await again.text()]).toEqual([304, ""]);
      expect(again.headers.get("etag")).toBe(etag);
    }
    expect((await get({ "if-none-match": '"other"' })).status).toBe(200);
  });

  test("is identical when compressed, and HEAD has its length", async () => {
    const [plain, head] = [await get(), await get({}, "HEAD")];
    const text = await plain.text();
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect(head.headers.get("content-length")).toBe(String(Buffer.byteLength(text)));
    const url = new URL(path, api.publicUrl);
    const lines = [`GET ${path} HTTP/1.1`, `Host: ${url.host}`, "Connection: close", "Accept-Encoding: gzip"];
    const accept = headers["accept"] === undefined ? [] : [`Accept: ${headers["accept"]}`];
    const raw = await exchange(api.publicPort, `${[...lines, ...accept].join("\r\n")}\r\n\r\n`);
    const [top = "", ...rest] = raw.split("\r\n\r\n");
    const body = Buffer.from(rest.join("\r\n\r\n"), "latin1");
    const packed = /content-encoding: gzip/i.test(top);
    expect(packed).toBe(Buffer.byteLength(text) >= 1_024);
    expect((packed ? gunzipSync(body) : body).toString()).toBe(text);
    expect(top).toMatch(/vary: .*accept-encoding/i);
  });

  test("is refused to an address above the rate limit, which can still probe the process", async () => {
    const statuses = await Promise.all(
      // Reads the whole answers: the process would wait for them when it ends.
      Array.from({ length: 30 }, async () => (await limited.request(path, { headers })).status),
    );
    expect(statuses).toContain(429);
    const probes = await Promise.all(
      Array.from({ length: 30 }, async () => (await limited.request("/healthz")).status),
    );
    expect(new Set(probes)).toEqual(new Set([200]));
  });
});

const FILLED = "0".repeat(24);
const filled = (path: string): string => path.replaceAll(/\{[^}]+\}/g, FILLED);

test("HEAD has the status of GET and no body, at every address of both APIs", async () => {
  const addresses = [
    ...(await apiRoutes(api)).map((route) => ({ ...route, base: api.publicUrl, token: tenant.token })),
    ...(await adminRoutes(api)).map((route) => ({
      ...route,
      base: `${api.adminUrl}/admin/v1`,
      token: api.operatorToken,
    })),
    ...["/healthz", "/readyz"].map((path) => ({ method: "GET", path, base: api.publicUrl, token: "" })),
  ].filter(({ method, path }) => method === "GET" && !path.endsWith("/stream"));
  expect(addresses.length).toBeGreaterThan(40);
  for (const { base, path, token } of addresses) {
    const headers = token === "" ? {} : bearer(token);
    const ask = async (method: string) =>
      await readAnswer(await fetch(base + filled(path), { method, headers }));
    // After a pause, a process is not ready, or cannot hear revocations. Both end between two requests.
    const [get, head] = await eventually(async () => {
      const both = [await ask("GET"), await ask("HEAD")] as const;
      return both[0].status === both[1].status && both;
    }, `HEAD of ${path} to have the status of GET`);
    expect([path, head.text]).toEqual([path, ""]);
    expect(head.headers.get("content-type")).toBe(get.headers.get("content-type"));
  }
});

test("pages of other origins may read public metadata only, and never with credentials", async () => {
  const open = (path: string): boolean => path === "/openapi.json" || path.startsWith("/.well-known/");
  const paths = [
    ...(await apiRoutes(api)).filter(({ method }) => method === "GET").map(({ path }) => path),
    "/",
    "/openapi.json",
    "/docs",
    "/healthz",
  ];
  const { id } = await createEndpoint(api, tenant);
  const signing = { body: { signing: "ed25519" } };
  expect((await tenant.send("PATCH", `/v1/webhooks/endpoints/${id}/secret`, signing)).status).toBe(200);
  for (const path of paths.filter((each) => !each.endsWith("/stream"))) {
    // oxlint-disable-next-line no-await-in-loop
    const answer = await fetch(api.publicUrl + path.replace("{id}", id).replaceAll(/\{[^}]+\}/g, FILLED), {
      headers: { ...bearer(tenant.token), origin: "https://pages.example" },
    });
    // oxlint-disable-next-line no-await-in-loop
    await answer.arrayBuffer();
    const allowed = answer.headers.get("access-control-allow-origin");
    expect([path, allowed]).toEqual([path, open(path) ? "*" : null]);
    expect(answer.headers.has("access-control-allow-credentials"), path).toBe(false);
  }
});

test("the operators' document has an ETag and gzip, HEAD, and is for no other origin", async () => {
  const get = async (more: Record<string, string> = {}, method = "GET") =>
    await fetch(`${api.adminUrl}/admin/v1/openapi.json`, {
      method,
      headers: { ...bearer(api.operatorToken), ...more },
    });
  const packed = await get({ "accept-encoding": "gzip" });
  expect(packed.headers.get("content-encoding")).toBe("gzip");
  expect(packed.headers.has("access-control-allow-origin")).toBe(false);
  const text = await packed.text();
  expect(JSON.parse(text)).toMatchObject({ openapi: "3.1.0" });
  const head = await get({ "accept-encoding": "identity" }, "HEAD");
  const length = String(Buffer.byteLength(text));
  expect([head.headers.get("content-length"), await head.text()]).toEqual([length, ""]);
  const again = await get({ "if-none-match": packed.headers.get("etag") ?? "" });
  expect([again.status, await again.text()]).toEqual([304, ""]);
});

test("HEAD of a stream and of an export ends immediately", async () => {
  for (const path of ["/v1/webhooks/deliveries/stream", "/v1/webhooks/dlq/export"]) {
    const answer = await eventually(async () => {
      const found = await api.request(path, { method: "HEAD", headers: bearer(tenant.token) });
      return found.status === 503 ? undefined : found;
    }, "a process that hears revocations");
    expect([path, answer.status, answer.text]).toEqual([path, 200, ""]);
  }
});

test.each(["/healthz", "/readyz"])("a probe of %s in HTTP/1.0 needs no Host", async (path) => {
  expect(await exchange(api.publicPort, `GET ${path} HTTP/1.0\r\n\r\n`)).toMatch(/^HTTP\/1\.[01] (200|503) /);
  expect(await exchange(api.adminPort, `HEAD ${path} HTTP/1.0\r\n\r\n`)).toMatch(/^HTTP\/1\.[01] (200|503) /);
  expect(await exchange(api.publicPort, `GET ${path} HTTP/1.1\r\nConnection: close\r\n\r\n`)).toMatch(
    / 400 /,
  );
  expect(await exchange(api.publicPort, "GET /docs HTTP/1.0\r\n\r\n")).toMatch(/ 400 /);
});
