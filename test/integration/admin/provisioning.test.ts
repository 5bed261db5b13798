/** The operators' API: tenants, roles, principals, credentials (contract 11). */
import { Client } from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { accessToken, bearer, provision, type Provisioned } from "#test/support/factories.ts";

const api = useTestApi();
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string;
const id = (prefix: string): string => expect.stringMatching(`^${prefix}_[0-9a-hjkmnp-tv-z]{24}$`) as string;

let own: Provisioned;
let foreign: Provisioned;

beforeAll(async () => {
  own = await provision(api);
  foreign = await provision(api);
});

function claimsOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as Record<
    string,
    unknown
  >;
}

describe("creation answers 201 with the object", () => {
  test("a tenant", async () => {
    const { status, body } = await api.admin("POST", "/tenants", {
      name: "Acme ☂ GmbH",
      region: "eu-west-1",
    });
    expect(status).toBe(201);
    expect(body).toEqual({
      id: id("ten"),
      name: "Acme ☂ GmbH",
      region: "eu-west-1",
      state: "ACTIVE",
      platform: false,
      held_at: null,
      erased_at: null,
      erasure_completed_at: null,
      created_at: TIME,
    });
    expect((await api.admin("GET", `/tenants/${String(body["id"])}`)).body).toEqual(body);
  });

  test("a role, its scopes sorted and without duplicates", async () => {
    const scopes = ["webhooks:write", "inference:read", "webhooks:write"];
    const { status, body } = await api.admin("POST", `/tenants/${own.tenantId}/roles`, {
      name: "sender",
      scopes,
    });
    expect(status).toBe(201);
    expect(body).toEqual({
      id: id("rol"),
      tenant_id: own.tenantId,
      name: "sender",
      scopes: ["inference:read", "webhooks:write"],
      created_at: TIME,
    });
    expect((await api.admin("GET", `/roles/${String(body["id"])}`)).body).toEqual(body);
  });

  test("a principal, with the role's scopes", async () => {
    const { status, body } = await api.admin("POST", `/tenants/${own.tenantId}/principals`, {
      name: "service",
      role_id: own.roleId,
      region: "global",
      environment: "development",
    });
    expect(status).toBe(201);
    expect(body).toEqual({
      id: id("prn"),
      tenant_id: own.tenantId,
      role_id: own.roleId,
      name: "service",
      region: "global",
      environment: "development",
      scopes: ["credentials:read"],
      state: "ACTIVE",
      provisioned_at: TIME,
      created_at: TIME,
    });
    expect((await api.admin("GET", `/principals/${String(body["id"])}`)).body).toEqual(body);
  });

  test("a credential, with its secret only this once", async () => {
    const answer = await api.admin("POST", `/principals/${own.principalId}/credentials`, {
      san_uri: "spiffe://service.example/tenant/t/client/c",
      certificate_thumbprints: ["ab".repeat(32)],
    });
    expect(answer.status).toBe(201);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    const { client_secret: secret, ...rest } = answer.body;
    expect(secret).toMatch(/^sgn_live_sk_[0-9A-Za-z]{49}$/);
    expect(rest).toEqual({
      id: id("crd"),
      tenant_id: own.tenantId,
      principal_id: own.principalId,
      client_id: expect.stringMatching(/^cl_[0-9A-Za-z]{24}$/),
      name: null,
      last_used_at: null,
      version: 1,
      state: "ACTIVE",
      rotation_mode: "in_band",
      san_uri: "spiffe://service.example/tenant/t/client/c",
      certificate_thumbprints: ["ab".repeat(32)],
      created_at: TIME,
      revoked_at: null,
      ends_at: null,
      replaced_by: null,
      due_at: TIME,
      overdue: false,
      signature_required: false,
    });
    const shown = await api.admin("GET", `/credentials/${String(rest["id"])}`);
    expect(shown.body).toEqual({
      ...rest,
      versions: [expect.objectContaining({ version: 1, state: "ACTIVE", due_at: rest["due_at"] })],
    });
    expect(shown.text).not.toContain(String(secret));
  });

  test("a credential of a development principal says test and is not rotated", async () => {
    const client = await provision(api, { environment: "development" });
    expect(client.clientSecret).toMatch(/^sgn_test_sk_/);
    expect((await api.admin("GET", `/credentials/${client.credentialId}`)).body).toMatchObject({
      rotation_mode: "manual",
    });
  });
});

describe("invalid requests are rejected", () => {
  test.each([
    [
      "a second role with the same name",
      () => `/tenants/${own.tenantId}/roles`,
      () => ({ name: "twice", scopes: ["a:b"] }),
    ],
    [
      "a second principal with the same name",
      () => `/tenants/${own.tenantId}/principals`,
      () => ({ name: "twice", role_id: own.roleId, region: "eu", environment: "production" }),
    ],
  ])("%s is a CONFLICT, except in another tenant", async (_name, path, body) => {
    expect(await api.admin("POST", path(), body())).toMatchObject({ status: 201 });
    expect(await api.admin("POST", path(), body())).toMatchObject({
      status: 409,
      body: { code: "CONFLICT" },
    });
    const elsewhere = path().replace(own.tenantId, foreign.tenantId);
    const theirs = { ...body(), ...(elsewhere.endsWith("principals") ? { role_id: foreign.roleId } : {}) };
    expect(await api.admin("POST", elsewhere, theirs)).toMatchObject({ status: 201 });
  });

  test("a role of another tenant", async () => {
    const answer = await api.admin("POST", `/tenants/${own.tenantId}/principals`, {
      name: "stranger",
      role_id: foreign.roleId,
      region: "eu",
      environment: "production",
    });
    expect(answer).toMatchObject({
      status: 422,
      body: { errors: [{ pointer: "/role_id", code: "not_found" }] },
    });
  });

  test.each(["tenants/ten", "roles/rol", "principals/prn", "credentials/crd"])(
    "a member that does not exist: %s",
    async (path) => {
      expect(await api.admin("GET", `/${path}_000000000000000000000000`)).toMatchObject({
        status: 404,
        body: { code: "NOT_FOUND" },
      });
    },
  );

  test("a collection of a parent that does not exist", async () => {
    const nobody = "ten_000000000000000000000000";
    expect(await api.admin("GET", `/tenants/${nobody}/roles`)).toMatchObject({ status: 404 });
    expect(await api.admin("GET", `/tenants/${nobody}/principals`)).toMatchObject({ status: 404 });
    expect(await api.admin("POST", `/tenants/${nobody}/roles`, { name: "a", scopes: ["a:b"] })).toMatchObject(
      { status: 404 },
    );
    expect(await api.admin("GET", "/principals/prn_000000000000000000000000/credentials")).toMatchObject({
      status: 404,
    });
  });

  test("a member below another parent", async () => {
    expect(await api.admin("GET", `/tenants/${own.tenantId}/roles/${own.roleId}`)).toMatchObject({
      status: 200,
    });
    expect(await api.admin("GET", `/tenants/${foreign.tenantId}/roles/${own.roleId}`)).toMatchObject({
      status: 404,
    });
  });

  test.each([
    ["no name", { region: "eu" }, "/name", "required"],
    ["an empty name", { name: "", region: "eu" }, "/name", "min_length"],
    ["a name of 129 characters", { name: "x".repeat(129), region: "eu" }, "/name", "max_length"],
    ["a name with a line break", { name: "a\nb", region: "eu" }, "/name", "pattern"],
    ["a name that is a number", { name: 1, region: "eu" }, "/name", "type"],
    ["an invalid region", { name: "a", region: "Europe" }, "/region", "pattern"],
    ["an unknown member", { name: "a", region: "eu", "a/b~c": 1 }, "/a~1b~0c", "unknown_member"],
    ["a state", { name: "a", region: "eu", state: "SUSPENDED" }, "/state", "unknown_member"],
    ["platform as text", { name: "a", region: "eu", platform: "true" }, "/platform", "type"],
  ])("a tenant with %s", async (_name, body, pointer, code) => {
    const answer = await api.admin("POST", "/tenants", body);
    expect(answer).toMatchObject({ status: 422, body: { code: "VALIDATION_FAILED" } });
    expect(answer.body["errors"]).toContainEqual({ pointer, code, detail: expect.any(String) });
  });

  test.each([
    ["no scopes", []],
    ["a wildcard", ["a:*"]],
    ["65 scopes", Array.from({ length: 65 }, (_, index) => `a:b${index}`)],
    ["a scope with a space", ["a:b c:d"]],
  ])("a role with %s", async (_name, scopes) => {
    const answer = await api.admin("POST", `/tenants/${own.tenantId}/roles`, { name: "bad", scopes });
    expect(answer).toMatchObject({ status: 422, body: { code: "VALIDATION_FAILED" } });
  });

  test.each([
    ["an https SAN", { san_uri: "https://example.com" }],
    ["a thumbprint in capitals", { certificate_thumbprints: ["AB".repeat(32)] }],
    ["a short thumbprint", { certificate_thumbprints: ["ab"] }],
    ["a chosen secret", { client_secret: "sgn_live_sk_mine" }],
  ])("a credential with %s", async (_name, body) => {
    const answer = await api.admin("POST", `/principals/${own.principalId}/credentials`, body);
    expect(answer).toMatchObject({ status: 422 });
  });
});

describe("the platform tenant", () => {
  test("exists at most once, and only its roles can hold events:publish_any", async () => {
    const scopes = ["events:publish_any"];
    const refused = await api.admin("POST", `/tenants/${own.tenantId}/roles`, { name: "any", scopes });
    expect(refused).toMatchObject({
      status: 422,
      body: { errors: [{ pointer: "/scopes/0", code: "platform_only" }] },
    });
    expect(await api.admin("PATCH", `/roles/${own.roleId}`, { scopes })).toMatchObject({ status: 422 });

    const platform = await api.admin("POST", "/tenants", {
      name: "platform",
      region: "global",
      platform: true,
    });
    expect(platform).toMatchObject({ status: 201, body: { platform: true } });
    expect(
      await api.admin("POST", "/tenants", { name: "second", region: "eu", platform: true }),
    ).toMatchObject({
      status: 409,
      body: { code: "CONFLICT" },
    });
    const client = await provision(api, { tenantId: String(platform.body["id"]), scopes });
    expect(claimsOf(await accessToken(api, client))["scope"]).toBe("events:publish_any");
  });
});

describe("scopes are copied at provisioning (contract 2)", () => {
  test("a revoked principal gets no credential, nor scopes that it could never use", async () => {
    const { principalId } = await provision(api);
    const [credential] = (await api.admin("GET", `/principals/${principalId}/credentials`)).body["data"] as [
      object,
    ];
    expect((await api.admin("POST", `/principals/${principalId}/revoke`, {})).status).toBe(200);
    for (const [path, body] of [
      [`/principals/${principalId}/credentials`, {}],
      [`/principals/${principalId}/reprovision`, undefined],
    ] as const) {
      expect(await api.admin("POST", path, body)).toMatchObject({
        status: 409,
        body: { code: "INVALID_STATE", detail: "The principal is revoked." },
      });
    }
    expect((await api.admin("GET", `/principals/${principalId}/credentials`)).body["data"]).toMatchObject([
      { ...credential, state: expect.any(String) as string },
    ]);
  });

  test("a changed role affects a principal only once it is reprovisioned, which is logged", async () => {
    const client = await provision(api, { scopes: ["inference:read"] });
    const scopes = ["inference:read", "pipeline:write"];
    expect(await api.admin("PATCH", `/roles/${client.roleId}`, { scopes })).toMatchObject({
      status: 200,
      body: { scopes },
    });
    expect(claimsOf(await accessToken(api, client))["scope"]).toBe("inference:read");

    const again = await api.admin("POST", `/principals/${client.principalId}/reprovision`);
    expect(again).toMatchObject({ status: 200, body: { id: client.principalId, scopes } });
    expect(claimsOf(await accessToken(api, client))["scope"]).toBe("inference:read pipeline:write");
    const line = api.log.find(
      (text) => text.includes("principal.reprovisioned") && text.includes(client.principalId),
    );
    expect(JSON.parse(line ?? "{}")).toMatchObject({
      actor: "operator:bootstrap",
      details: { before: ["inference:read"], after: scopes },
    });
  });
});

describe("lists", () => {
  test("are paged, newest first, with each item once", async () => {
    const client = await provision(api);
    for (let count = 0; count < 4; count += 1) {
      await api.admin("POST", `/principals/${client.principalId}/credentials`, {});
    }
    const seen: string[] = [];
    let query = "?limit=2";
    for (;;) {
      const { body } = await api.admin("GET", `/principals/${client.principalId}/credentials${query}`);
      const data = body["data"] as { id: string; client_secret?: string }[];
      expect(data.length).toBeLessThanOrEqual(2);
      expect(data.every((item) => item.client_secret === undefined)).toBe(true);
      seen.push(...data.map((item) => item.id));
      const cursor = body["next_cursor"] as string | null;
      if (cursor === null) {
        break;
      }
      query = `?limit=2&cursor=${cursor}`;
    }
    expect(seen).toHaveLength(5);
    expect(seen).toEqual([...new Set(seen)].sort().toReversed());
  });

  test("return an empty array when there is nothing", async () => {
    const { body } = await api.admin("POST", "/tenants", { name: "empty", region: "eu" });
    expect((await api.admin("GET", `/tenants/${String(body["id"])}/roles`)).body).toEqual({
      data: [],
      next_cursor: null,
    });
  });

  test("of one tenant have nothing of another", async () => {
    const { body } = await api.admin("GET", `/tenants/${foreign.tenantId}/principals`);
    const tenants = (body["data"] as { tenant_id: string }[]).map((item) => item.tenant_id);
    expect(new Set(tenants)).toEqual(new Set([foreign.tenantId]));
  });
});

describe("access", () => {
  test.each([
    ["no token", {}, "TOKEN_MISSING"],
    ["another token", bearer("x".repeat(64)), "TOKEN_INVALID"],
    ["the token with a suffix", "more", "TOKEN_INVALID"],
    ["a prefix of the token", "less", "TOKEN_INVALID"],
    ["Basic", { authorization: "Basic eDp5" }, "TOKEN_MISSING"],
    ["a tenant's token", "tenant", "TOKEN_INVALID"],
  ])("%s is refused", async (_name, given, code) => {
    const token = api.operatorToken;
    const headers: Record<string, string> =
      typeof given !== "string"
        ? given
        : bearer({ more: `${token}x`, less: token.slice(0, -1) }[given] ?? (await accessToken(api, own)));
    const response = await fetch(`${api.adminUrl}/admin/v1/tenants`, { headers });
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ code });
  });

  test("the public listener has no operators' routes, with any token", async () => {
    for (const token of [api.operatorToken, await accessToken(api, own)]) {
      expect(await api.request("/admin/v1/tenants", { headers: bearer(token) })).toMatchObject({
        status: 404,
      });
    }
  });

  test("the operator token is rejected on the public listener", async () => {
    expect(await api.request("/v1/credentials", { headers: bearer(api.operatorToken) })).toMatchObject({
      status: 401,
    });
  });
});

test("a credential's first version is due for rotation after 30 days, and the tenant's data key is an envelope", async () => {
  const client = new Client({ connectionString: api.database.adminUrl });
  await client.connect();
  const { rows } = await client.query<{ days: number; state: string; data_key: string }>(
    `SELECT extract(epoch FROM v.due_at - v.issued_at) / 86400 AS days, v.state, t.data_key
       FROM secret_versions v JOIN tenants t ON t.id = v.tenant_id WHERE v.credential_id = $1`,
    [own.credentialId],
  );
  await client.end();
  expect(Number(rows[0]?.days)).toBe(30);
  expect(rows[0]).toMatchObject({ state: "ACTIVE", data_key: expect.stringMatching(/^v1\./) as string });
});
