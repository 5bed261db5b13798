/**
 * The operators' console: sign-in, overview, search, and a tenant's pages, read-only, on record and without content.
 * Its only changes revoke, hold and release.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { collectConsoleRoutes, collectPortalRoutes } from "#test/support/portal-routes.ts";
import { readAnswer, type Answer } from "#test/support/answer.ts";
import { useTestApi } from "#test/support/api.ts";
import { createOperator, type TestOperator } from "#test/support/operators.ts";
import { accessToken, bearer } from "#test/support/factories.ts";
import { createEndpoint, createTenant, type Json, publish, sql, type Tenant } from "#test/support/tenant.ts";

const api = useTestApi();
const SECRET = "do-not-show";

let tenant: Tenant;
let endpoint: string;
let delivery: string;
let reader: TestOperator;

interface Visitor {
  readonly cookie: string;
  get(path: string): Promise<Answer>;
  post(path: string, fields?: Readonly<Record<string, string>>): Promise<Answer>;
}

async function send(path: string, init: RequestInit): Promise<Answer> {
  return await readAnswer(await fetch(`${api.adminUrl}${path}`, { redirect: "manual", ...init }));
}

async function submit(
  path: string,
  fields: Readonly<Record<string, string>>,
  headers: Record<string, string> = {},
): Promise<Answer> {
  return await send(path, {
    method: "POST",
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      "sec-fetch-site": "same-origin",
      ...headers,
    },
    body: new URLSearchParams(fields).toString(),
  });
}

async function signIn(token: string): Promise<Visitor> {
  const answer = await submit("/portal/operator/sign-in", { token });
  expect(answer.status).toBe(303);
  const [cookie = ""] = (answer.headers.get("set-cookie") ?? "").split(";");
  const get = async (path: string): Promise<Answer> => await send(path, { headers: { cookie } });
  return {
    cookie,
    get,
    post: async (path, fields = {}) => {
      const { text } = await get("/portal/operator/tenants");
      const csrf = /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? "";
      return await submit(path, { csrf, ...fields }, { cookie });
    },
  };
}

async function entries(type: string): Promise<readonly Json[]> {
  return (await api.admin("GET", `/audit?type=${type}&limit=100`)).body["data"] as Json[];
}

beforeAll(async () => {
  tenant = await createTenant(api);
  await sql(api, "UPDATE tenants SET name = 'Acme & Sons' WHERE id = $1", [tenant.tenantId]);
  const url = `http://127.0.0.1:19999/hooks?token=${SECRET}`;
  ({ id: endpoint } = await createEndpoint(api, tenant, { url, metadata: { note: SECRET } }));
  await sql(api, "UPDATE endpoints SET headers = $2 WHERE id = $1", [
    endpoint,
    JSON.stringify({ "X-Team": SECRET }),
  ]);
  const eventId = await publish(tenant, { data: { secret: SECRET } });
  const list = await tenant.get(`/v1/webhooks/deliveries?event_id=${eventId}`);
  delivery = String((list.body["data"] as Json[])[0]?.["id"]);
  await sql(
    api,
    `INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms, status, error, response_body)
      SELECT day, id, 1, 1, 'att_' || substr(id, 5), tenant_id, now(), 12, 500, 'status', $2 FROM deliveries WHERE id = $1`,
    [delivery, SECRET],
  );
  reader = await createOperator(api, "read");
});

describe("signing in", () => {
  test("takes a token, sets a cookie of its own, and is on record", async () => {
    const visitor = await signIn(reader.token);
    expect(visitor.cookie).toMatch(/^signet_operator=[A-Za-z0-9_-]{43}$/);
    const page = await visitor.get("/portal/operator");
    expect(page).toMatchObject({ status: 200 });
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(page.headers.get("cache-control")).toBe("no-store");
    expect(await entries("operator.signed_in")).toMatchObject(
      expect.arrayContaining(
        [{ actor: `operator:${reader.id}`, target: reader.id, tenant_id: null }].map((entry) =>
          expect.objectContaining(entry),
        ),
      ),
    );
  });

  test("rejects a wrong token, no token, and forms of other sites", async () => {
    for (const fields of [{ token: "x".repeat(64) }, {}]) {
      const answer = await submit("/portal/operator/sign-in", fields);
      expect(answer.status).toBe(401);
      expect(answer.headers.get("set-cookie")).toBeNull();
    }
    const foreign = await submit(
      "/portal/operator/sign-in",
      { token: reader.token },
      { "sec-fetch-site": "cross-site" },
    );
    expect(foreign.status).toBe(400);
    expect(foreign.headers.get("set-cookie")).toBeNull();
  });

  test("is required for every page, and its cookie does not open the API", async () => {
    for (const path of ["/portal", "/portal/operator", "/portal/operator/tenants", "/portal/endpoints"]) {
      const answer = await send(path, {});
      expect({ path, status: answer.status }).toEqual({ path, status: 401 });
      expect(answer.text).toContain("Operator token");
    }
    const { cookie } = await signIn(api.operatorToken);
    expect(await send("/admin/v1/tenants", { headers: { cookie } })).toMatchObject({
      status: 401,
      body: { code: "TOKEN_MISSING" },
    });
  });

  test("ends with the token, with the operator, by signing out, and after an hour", async () => {
    const operator = await createOperator(api, "read");
    const byToken = await signIn(operator.token);
    await api.admin("DELETE", `/operators/${operator.id}/tokens/${operator.tokenId}`);
    expect((await byToken.get("/portal/operator")).status).toBe(401);

    const left = await createOperator(api, "read");
    const byOperator = await signIn(left.token);
    await api.admin("POST", `/operators/${left.id}/revoke`, {});
    expect((await byOperator.get("/portal/operator")).status).toBe(401);

    const out = await signIn(reader.token);
    expect((await out.post("/portal/sign-out")).status).toBe(303);
    expect((await out.get("/portal/operator")).status).toBe(401);
    expect(await entries("operator.session_ended")).not.toEqual([]);

    const late = await signIn(api.operatorToken);
    await sql(
      api,
      "UPDATE operator_sessions SET expires_at = now() - interval '1 s' WHERE operator_id = 'bootstrap'",
    );
    expect((await late.get("/portal/operator")).status).toBe(401);
  });
});

describe("the operators' own pages", () => {
  test("show the state of the deployment, and find tenants", async () => {
    const visitor = await signIn(reader.token);
    expect((await visitor.get("/portal/operator")).text).toContain("No worker is alive");
    const all = await visitor.get("/portal/operator/tenants");
    expect(all.text).toContain("Acme &amp; Sons");
    const found = await visitor.get("/portal/operator/tenants?q=19999%2Fhooks");
    expect(found.text).toContain(endpoint);
    expect(found.text).not.toContain(SECRET);
    expect((await visitor.get("/portal/operator/tenants?q=ab")).status).toBe(400);
    expect((await visitor.get(`/portal/operator/why/${delivery}`)).text).toContain("No worker is alive");
    expect((await visitor.get("/portal/operator/why/nothing")).status).toBe(404);
  });

  test("lead from a tenant's pages to the choice of a tenant", async () => {
    const visitor = await signIn(reader.token);
    const answer = await visitor.get("/portal/deliveries");
    expect(answer.status).toBe(303);
    expect(answer.headers.get("location")).toBe("/portal/operator");
  });
});

describe("viewing a tenant", () => {
  let visitor: Visitor;

  beforeAll(async () => {
    visitor = await signIn(reader.token);
    await visitor.post(`/portal/operator/tenants/${tenant.tenantId}/view`);
  });

  test("is an entry of the tenant's log", async () => {
    expect(await entries("tenant.viewed")).toMatchObject([
      {
        actor: `operator:${reader.id}`,
        tenant_id: tenant.tenantId,
        target: tenant.tenantId,
        details: { mode: "read" },
      },
    ]);
  });

  test("shows the tenant's pages without content", async () => {
    const pages = {
      "/portal": "Acme &amp; Sons",
      "/portal/endpoints": "127.0.0.1:19999/hooks",
      [`/portal/endpoints/${endpoint}`]: "127.0.0.1:19999/hooks",
      "/portal/deliveries": delivery,
      [`/portal/deliveries/${delivery}`]: "Attempt 1",
      "/portal/dead-letters": "Dead letters",
      "/portal/event-types": "Event types",
      "/portal/credentials": tenant.clientId,
      "/portal/compliance": "tenant.viewed",
    };
    for (const [path, part] of Object.entries(pages)) {
      const page = await visitor.get(path);
      expect({ path, status: page.status }).toEqual({ path, status: 200 });
      expect({ path, shows: page.text.includes(part) }).toEqual({ path, shows: true });
      expect({ path, says: page.text.includes("read-only, without content") }).toEqual({ path, says: true });
      expect({ path, leaks: page.text.includes(SECRET) }).toEqual({ path, leaks: false });
    }
    expect((await visitor.get("/portal/dead-letters/export")).status).toBe(403);
  });

  test("changes nothing: every form of the portal is rejected", async () => {
    const routes = (await collectPortalRoutes()).filter(({ method }) => method !== "GET");
    const own = new Set(["/portal/sign-out", "/portal/sessions/:hash/end"]);
    const changing = routes.filter(({ url }) => !own.has(url));
    expect(changing.length).toBeGreaterThan(15);
    const { token } = await createOperator(api, "security");
    const viewing = await signIn(token);
    await viewing.post(`/portal/operator/tenants/${tenant.tenantId}/view`);
    for (const { method, url } of changing) {
      const path = url
        .replace("/endpoints/:id", `/endpoints/${endpoint}`)
        .replace("/deliveries/:id", `/deliveries/${delivery}`)
        .replaceAll(/:\w+/g, "x");
      const answer = await viewing.post(path);
      expect({ method, url, status: answer.status }).toEqual({ method, url, status: 403 });
    }
    const page = await viewing.get(`/portal/endpoints/${endpoint}`);
    expect(page.text).not.toMatch(/action="\/portal\/endpoints/);
  });

  test("ends by leaving", async () => {
    expect((await visitor.post("/portal/operator/leave")).status).toBe(303);
    expect((await visitor.get("/portal/deliveries")).status).toBe(303);
  });
});

describe("revoking and holding", () => {
  const REASON = "leaked <in> a log";
  let security: TestOperator;
  let visitor: Visitor;

  /** Creates a tenant with a name of its own, and returns its pages. */
  async function createTarget() {
    const target = await createTenant(api, ["credentials:read"]);
    const name = `Target ${target.tenantId.slice(-6)}`;
    await sql(api, "UPDATE tenants SET name = $2 WHERE id = $1", [target.tenantId, name]);
    const page = `/portal/operator/tenants/${target.tenantId}`;
    const { body } = await api.admin("GET", `/credentials/${target.clientId}`);
    return {
      ...target,
      name,
      page,
      credentialId: String(body["id"]),
      principalId: String(body["principal_id"]),
    };
  }

  async function entryOf(type: string, target: string): Promise<Json | undefined> {
    return (await entries(type)).find((entry) => entry["target"] === target);
  }

  async function use(token: string): Promise<number> {
    return (await api.request("/v1/credentials", { headers: bearer(token) })).status;
  }

  beforeAll(async () => {
    security = await createOperator(api, "security");
    visitor = await signIn(security.token);
  });

  test("a credential, a principal and a tenant are revoked with the operator and the reason on record", async () => {
    const by = { actor: `operator:${security.id}`, reason: REASON };
    const target = await createTarget();
    const targets = [
      ["credential", target.credentialId, target.clientId],
      ["principal", target.principalId, undefined],
      ["tenant", target.tenantId, target.name],
    ] as const;
    for (const [noun, id, typed] of targets) {
      const page = `/portal/operator/${noun}s/${id}`;
      const before = (await visitor.get(page)).text;
      expect(before).toContain(`action="${page}/revoke"`);
      const confirm = typed ?? String((await api.admin("GET", `/principals/${id}`)).body["name"]);
      const answer = await visitor.post(`${page}/revoke`, { reason: ` ${REASON} `, confirm });
      expect({ noun, status: answer.status, to: answer.headers.get("location") }).toEqual({
        noun,
        status: 303,
        to: page,
      });
      expect(await entryOf(`${noun}.revoked`, id)).toMatchObject(by);
      expect((await visitor.get(page)).text).not.toContain(`action="${page}/revoke"`);
    }
  });

  test("the tokens of what was revoked are rejected when the page has answered", async () => {
    const target = await createTarget();
    const token = await accessToken(api, target);
    expect(await use(token)).toBe(200);
    await visitor.post(`/portal/operator/credentials/${target.clientId}/revoke`, {
      reason: REASON,
      confirm: target.clientId,
    });
    expect(await use(token)).toBe(401);
  });

  test("a tenant is held and released", async () => {
    const { tenantId, name, page } = await createTarget();
    for (const [act, other, type] of [
      ["hold", "release", "tenant.held"],
      ["release", "hold", "tenant.released"],
    ] as const) {
      expect((await visitor.post(`${page}/${act}`, { reason: REASON, confirm: name })).status).toBe(303);
      expect(await entryOf(type, tenantId)).toMatchObject({
        actor: `operator:${security.id}`,
        tenant_id: tenantId,
        reason: REASON,
      });
      const { text } = await visitor.get(page);
      expect(text).toContain(`action="${page}/${other}"`);
      expect(text).not.toContain(`action="${page}/${act}"`);
    }
  });

  test("a wrong confirmation, a missing reason and one that is too long change nothing", async () => {
    const { tenantId, name, page } = await createTarget();
    for (const act of ["revoke", "hold"]) {
      for (const [fields, text] of [
        [{ reason: REASON, confirm: `${name}x` }, `The confirmation must be ${name}.`],
        [{ reason: REASON, confirm: "" }, `The confirmation must be ${name}.`],
        [{ reason: " ", confirm: name }, "Reason is required."],
        [{ reason: "x".repeat(501), confirm: name }, "Reason must"],
      ] as const) {
        const answer = await visitor.post(`${page}/${act}`, fields);
        expect({ act, fields, status: answer.status }).toEqual({ act, fields, status: 422 });
        expect(answer.text).toContain(text);
        expect(answer.text).toContain("<code>VALIDATION_FAILED</code>");
      }
    }
    const again = await visitor.post(`${page}/revoke`, { reason: REASON, confirm: "" });
    expect(again.text).toContain('value="leaked &lt;in&gt; a log"');
    expect((await api.admin("GET", `/tenants/${tenantId}`)).body).toMatchObject({
      state: "ACTIVE",
      held_at: null,
    });
  });

  test("a name that is hard to type is confirmed by the id", async () => {
    const { tenantId, page } = await createTarget();
    for (const name of ["Ａcme", "Acme  Sons"]) {
      await sql(api, "UPDATE tenants SET name = $2 WHERE id = $1", [tenantId, name]);
      expect((await visitor.get(page)).text).toContain(`data-confirm="${tenantId}"`);
      expect((await visitor.post(`${page}/hold`, { reason: REASON, confirm: name })).status).toBe(422);
    }
    expect((await visitor.post(`${page}/hold`, { reason: REASON, confirm: tenantId })).status).toBe(303);
  });

  test("an operator without the role sees no form and is refused, on record", async () => {
    const { tenantId, name, page } = await createTarget();
    for (const role of ["read", "provision"] as const) {
      const operator = await createOperator(api, role);
      const other = await signIn(operator.token);
      const shown = await other.get(page);
      expect(shown.status).toBe(200);
      expect(shown.text).not.toContain(`action="${page}`);
      expect((await other.get(`/portal/operator/why/${tenantId}`)).text).not.toContain(`href="${page}"`);
      for (const act of ["revoke", "hold", "release"]) {
        const answer = await other.post(`${page}/${act}`, { reason: REASON, confirm: name });
        expect({ role, act, status: answer.status }).toEqual({ role, act, status: 403 });
        expect(answer.text).toContain("requires an operator of role security");
      }
      const refusals = await entries("operator.refused");
      expect(refusals.some(({ actor }) => actor === `operator:${operator.id}`)).toBe(true);
    }
    expect((await api.admin("GET", `/tenants/${tenantId}`)).body).toMatchObject({ state: "ACTIVE" });
  });

  test("forms without the session's token, of other sites and of ended sessions change nothing", async () => {
    const { tenantId, name, page } = await createTarget();
    const fields = { reason: REASON, confirm: name };
    const own = await signIn(security.token);
    const csrf = /name="csrf" value="([^"]+)"/.exec((await own.get(page)).text)?.[1] ?? "";
    const { cookie } = own;
    expect((await submit(`${page}/revoke`, fields, { cookie })).status).toBe(422);
    expect((await submit(`${page}/revoke`, { ...fields, csrf: "x".repeat(43) }, { cookie })).status).toBe(
      400,
    );
    for (const site of ["cross-site", "same-site", "none"]) {
      const foreign = { cookie, "sec-fetch-site": site };
      expect((await submit(`${page}/revoke`, { ...fields, csrf }, foreign)).status).toBe(400);
    }
    expect((await own.post("/portal/sign-out")).status).toBe(303);
    expect((await submit(`${page}/revoke`, { ...fields, csrf }, { cookie })).status).toBe(401);
    expect((await api.admin("GET", `/tenants/${tenantId}`)).body).toMatchObject({ state: "ACTIVE" });
  });

  test("pages lead there: a tenant's explanation, a search, and a viewed credential", async () => {
    const { tenantId, clientId, credentialId, page } = await createTarget();
    expect((await visitor.get(`/portal/operator/why/${tenantId}`)).text).toContain(`href="${page}"`);
    const link = `href="/portal/operator/credentials/${credentialId}"`;
    expect((await visitor.get(`/portal/operator/tenants?q=${clientId}`)).text).toContain(link);
    const viewing = await signIn(security.token);
    await viewing.post(`${page}/view`);
    const shown = (await viewing.get(`/portal/credentials/${credentialId}`)).text;
    expect(shown).toContain(link);
    expect(shown).not.toContain('action="/portal/credentials');
    expect((await visitor.get("/portal/operator/tenants/ten_000000000000000000000000")).status).toBe(404);
  });
});

test("the console has no other change than these", async () => {
  const changes = (await collectConsoleRoutes()).filter(({ method }) => method !== "GET");
  expect(changes.map(({ method, url, scopes }) => [method, url, ...scopes].join(" ")).toSorted()).toEqual(
    [
      "POST /portal/operator/sign-in",
      "POST /portal/sign-out operator:read",
      "POST /portal/operator/leave operator:read",
      "POST /portal/operator/tenants/:id/view operator:read",
      ...["credentials", "principals", "tenants"].map(
        (nouns) => `POST /portal/operator/${nouns}/:id/revoke operator:read operator:security`,
      ),
      "POST /portal/operator/tenants/:id/hold operator:read operator:security",
      "POST /portal/operator/tenants/:id/release operator:read operator:security",
    ].toSorted(),
  );
});
