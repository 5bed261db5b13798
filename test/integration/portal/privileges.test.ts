/**
 * The portal does nothing that its session's scopes do not allow, nothing of another tenant's, and nothing for other
 * sites.
 */
import { randomBytes } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { collectPortalRoutes, type PortalRoute } from "#test/support/portal-routes.ts";
import { useSharedApi } from "#test/support/api.ts";
import { accessToken, provision } from "#test/support/factories.ts";
import { newId } from "#domain/ids.ts";
import { type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { asTenant, createEndpoint, publish, rows, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const SCOPES = [
  "portal:sign_in",
  "webhooks:read",
  "webhooks:write",
  "webhooks:replay",
  "events:publish",
  "events:read",
  "credentials:read",
  "credentials:write",
  "credentials:revoke",
  "compliance:read",
];

interface Owner {
  readonly tenant: Tenant;
  readonly visitor: PortalVisitor;
  readonly endpoint: string;
  readonly delivery: string;
  readonly event: string;
  /** Index of a compliance entry. */
  readonly entry: number;
}

let routes: readonly PortalRoute[];
let a: Owner;
let b: Owner;

async function makeOwner(): Promise<Owner> {
  const client = await provision(api, { scopes: SCOPES });
  const token = await accessToken(api, client, SCOPES.join(" "));
  const tenant = asTenant(api, client, token);
  const { id: endpoint } = await createEndpoint(api, tenant, { state: "ACTIVE" });
  await tenant.post("/v1/webhooks/event-types", { name: `of.${endpoint}` });
  const event = await publish(tenant);
  const [delivery] = rows(await tenant.get("/v1/webhooks/deliveries"));
  const [entry] = rows(await tenant.get("/v1/compliance/entries?limit=1"));
  return {
    tenant,
    endpoint,
    delivery: String(delivery?.["id"]),
    event,
    entry: Number(entry?.["index"]),
    visitor: await signInToPortal(api, token),
  };
}

/** Valid fields, so that the rejection comes from behind the form. */
const FIELDS = {
  signing: "hmac-sha256",
  rotation_days: "",
  recipient: "",
  url: "https://example.com/",
  events: "",
  description: "",
  confirm: "delete",
  target: "cl_000000000000000000000000",
  reason: "",
  which: "all",
  since: "2025-01-01T00:00",
  until: "",
  type: "endpoint.test",
  data: "{}",
  name: "",
  san_uri: "",
  certificate_thumbprints: "",
};

/** Returns the path with an owner's ids, or with ids that do not exist. */
function pathOf({ url }: PortalRoute, { tenant, endpoint, delivery, event, entry }: Owner): string {
  return (
    url
      .replace(/^\/portal\/credentials\/:id/, `/portal/credentials/${tenant.credentialId}`)
      .replace(/^\/portal\/endpoints\/:id/, `/portal/endpoints/${endpoint}`)
      .replace(/^\/portal\/deliveries\/:id/, `/portal/deliveries/${delivery}`)
      .replace(/^\/portal\/events\/:id/, `/portal/events/${event}`)
      .replace(/^\/portal\/dead-letters\/:id/, `/portal/dead-letters/${delivery}`)
      // An id that does not exist: dead-letters.test.ts uses another tenant's.
      .replace(/^\/portal\/replays\/:id/, `/portal/replays/${newId("replay", Date.now(), randomBytes)}`)
      .replace(":grade_id", newId("grade", Date.now(), randomBytes))
      .replace(":idx", String(entry))
      .replace(":name", `of.${endpoint}`)
      .replace(":hash", randomBytes(32).toString("hex"))
  );
}

async function ask(route: PortalRoute, visitor: PortalVisitor, path: string) {
  return route.method === "GET" ? await visitor.get(path) : await visitor.post(path, fieldsOf(route));
}

function fieldsOf({ fields }: PortalRoute): Record<string, string> {
  return Object.fromEntries(Object.entries(FIELDS).filter(([name]) => fields.includes(name)));
}

beforeAll(async () => {
  routes = await collectPortalRoutes();
  a = await makeOwner();
  b = await makeOwner();
});

test("every route of the portal is found", () => {
  const known = routes.map(({ method, url }) => `${method} ${url}`);
  expect(known).toEqual(
    expect.arrayContaining(["GET /portal", "POST /portal/endpoints/:id/delete", "POST /portal/sign-out"]),
  );
});

test("without one of its scopes every route is rejected, names the scope, and changes nothing", async () => {
  // One session per missing scope: a credential has at most 50.
  const visitors = new Map<string, PortalVisitor>();
  for (const route of routes) {
    for (const scope of route.scopes) {
      const token = await accessToken(api, a.tenant, SCOPES.filter((other) => other !== scope).join(" "));
      const visitor = visitors.get(scope) ?? (await signInToPortal(api, token));
      visitors.set(scope, visitor);
      const answer = await ask(route, visitor, pathOf(route, a));
      expect({ route: route.url, scope, status: answer.status }).toEqual({
        route: route.url,
        scope,
        status: 403,
      });
      expect(answer.text).toContain(scope);
    }
  }
  expect(await a.tenant.get(`/v1/webhooks/endpoints/${a.endpoint}`)).toMatchObject({
    body: { state: "ACTIVE", url: expect.not.stringContaining("example.com/") },
  });
});

test("a session without a scope sees nothing that requires it", async () => {
  const token = await accessToken(api, a.tenant, "portal:sign_in webhooks:read");
  const visitor = await signInToPortal(api, token);
  const { text } = await visitor.get(`/portal/endpoints/${a.endpoint}`);
  expect([...text.matchAll(/<form[^>]* action="([^"]+)"/g)].map(([, action]) => action)).toEqual([
    "/portal/search",
    "/portal/sign-out",
  ]);
  expect(text).not.toContain('href="/portal/credentials"');
});

test("ids of another tenant do not exist", async () => {
  const addressed = routes.filter(({ url }) => /:(?:id|name)/.test(url));
  expect(addressed.length).toBeGreaterThan(10);
  for (const route of addressed) {
    const answer = await ask(route, b.visitor, pathOf(route, a));
    expect({ route: `${route.method} ${route.url}`, status: answer.status }).toEqual({
      route: `${route.method} ${route.url}`,
      status: 404,
    });
    expect(answer.text).not.toContain(a.tenant.tenantId);
  }
  expect(rows(await a.tenant.get("/v1/webhooks/endpoints"))).toHaveLength(1);
});

test("no list shows anything of another tenant", async () => {
  // Live streams do not end; they have their own tests.
  const lists = routes.filter(({ method, url }) => method === "GET" && !/:|\/live$/.test(url));
  for (const route of lists) {
    const { status, text } = await b.visitor.get(route.url);
    expect({ url: route.url, status }).toEqual({ url: route.url, status: 200 });
    for (const foreign of [
      a.endpoint,
      a.delivery,
      a.event,
      a.tenant.credentialId,
      a.tenant.clientId,
      a.tenant.tenantId,
    ]) {
      expect({ url: route.url, shows: text.includes(foreign) }).toEqual({ url: route.url, shows: false });
    }
  }
});

describe("a form", () => {
  const headers = (cookie: string, more: Record<string, string>): Record<string, string> => ({
    cookie,
    "content-type": "application/x-www-form-urlencoded",
    ...more,
  });

  test("is rejected on every route without the session's token, and with another session's", async () => {
    for (const route of routes.filter(({ method }) => method === "POST")) {
      for (const csrf of ["", await b.visitor.csrf()]) {
        const answer = await api.request(pathOf(route, a), {
          method: "POST",
          redirect: "manual",
          headers: headers(a.visitor.cookie, { origin: api.publicUrl }),
          body: new URLSearchParams({ ...fieldsOf(route), csrf }).toString(),
        });
        expect({ route: route.url, status: answer.status }).toEqual({ route: route.url, status: 400 });
      }
    }
    expect(await a.visitor.get("/portal")).toMatchObject({ status: 200 });
  });

  test("is rejected on every route from another site, even with a valid token", async () => {
    const csrf = await a.visitor.csrf();
    for (const route of routes.filter(({ method }) => method === "POST")) {
      for (const from of [{ origin: "https://evil.example" }, { "sec-fetch-site": "cross-site" }, {}]) {
        const answer = await api.request(pathOf(route, a), {
          method: "POST",
          redirect: "manual",
          headers: headers(a.visitor.cookie, from),
          body: new URLSearchParams({ ...fieldsOf(route), csrf }).toString(),
        });
        expect({ route: route.url, from, status: answer.status }).toEqual({
          route: route.url,
          from,
          status: 400,
        });
      }
    }
  });

  test("sent twice takes effect once and shows the same secret", async () => {
    const once = randomBytes(16).toString("base64url");
    const endpoint = { url: "https://example.com/twice", events: "", description: "", once };
    const made = await Promise.all([
      b.visitor.post("/portal/endpoints/new", endpoint),
      b.visitor.post("/portal/endpoints/new", endpoint),
    ]);
    const secrets = made.map(({ text }) => /whsec_[A-Za-z0-9+/=]+/.exec(text)?.[0]);
    expect(secrets[0]).toBeDefined();
    expect(secrets[1]).toBe(secrets[0]);
    const urls = rows(await b.tenant.get("/v1/webhooks/endpoints")).map(({ url }) => url);
    expect(urls.filter((url) => url === "https://example.com/twice")).toHaveLength(1);
  });
});

test("every answer of the portal has the security headers", async () => {
  const paths = ["/portal", "/portal/sign-in", "/portal/nothing", "/portal/endpoints?nonsense=1"];
  for (const path of paths) {
    const { headers } = await a.visitor.get(path);
    const policy = headers.get("content-security-policy") ?? "";
    expect({ path, policy }).toEqual({ path, policy: expect.stringMatching(/^default-src 'none'; /) });
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    expect(Object.fromEntries(headers)).toMatchObject({
      "cache-control": "no-store",
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
      "referrer-policy": "same-origin",
      "x-content-type-options": "nosniff",
      "content-type": "text/html; charset=utf-8",
    });
  }
});

test("the portal's files are named by their contents and cached indefinitely", async () => {
  const { text } = await a.visitor.get("/portal");
  const files = [...text.matchAll(/(?:href|src)="(\/portal\/assets\/[^"]+)"/g)].map(([, path = ""]) => path);
  expect(new Set(files).size).toBe(4);
  for (const file of files) {
    const { status, headers } = await api.request(file);
    expect({ file, status }).toEqual({ file, status: 200 });
    expect(headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
  }
  expect(await api.request("/portal/assets/portal.css")).toMatchObject({ status: 404 });
});

test("tenants' text cannot become markup", async () => {
  const hostile = `"><script>alert(1)</script><img src=x onerror='alert(2)'>`;
  const made = await a.tenant.post("/v1/webhooks/endpoints", {
    url: "https://example.com/%22%3E",
    events: ["*"],
    description: hostile,
    metadata: { hostile },
  });
  for (const path of ["/portal/endpoints", `/portal/endpoints/${String(made.body["id"])}`, "/portal"]) {
    const { text } = await a.visitor.get(path);
    expect({ path, script: text.includes("<script>"), image: text.includes("<img src=x") }).toEqual({
      path,
      script: false,
      image: false,
    });
  }
});
