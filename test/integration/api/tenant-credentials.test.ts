/** `POST /v1/credentials`: the credentials that a tenant can create, and how one replaces another. */
import { generateKeyPairSync } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { grant, provision } from "#test/support/factories.ts";
import {
  anInstant,
  createTenant,
  expectRefusal,
  type Json,
  renew,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useTestApi();
const publicKey = generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "jwk" });
const SCOPES = ["credentials:read", "credentials:write", "events:publish"];
let tenant: Tenant;
let other: Tenant;

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
  other = await createTenant(api, SCOPES);
});

/** Creates a client and returns it with its client id and secret. */
async function create(body: Json = {}): Promise<Json> {
  const answer = await tenant.post("/v1/credentials", body);
  expect(answer).toMatchObject({ status: 201 });
  expect(answer.headers.get("cache-control")).toBe("no-store");
  return answer.body;
}

async function tokenStatus({ client_id: clientId, client_secret: clientSecret }: Json): Promise<number> {
  const { status } = await api.token({
    grant_type: "client_credentials",
    client_id: clientId,
    client_secret: clientSecret,
  });
  return status;
}

const logged = async (type: string): Promise<Json[]> =>
  (
    await sql<{ entry: Json }>(
      api,
      "SELECT convert_from(entry, 'UTF8')::jsonb AS entry FROM clog WHERE type = $1 AND tenant_id = $2 ORDER BY idx",
      [type, tenant.tenantId],
    )
  ).map(({ entry }) => entry);

describe("a new credential", () => {
  test.each([
    ["a name in its certificate", { san_uri: "spiffe://acme.example/billing" }],
    ["the thumbprint of its certificate", { certificate_thumbprints: ["ab".repeat(32)] }],
    ["keys", { san_uri: "spiffe://acme.example/keys", jwks: { keys: [publicKey] } }],
  ])("without a secret has %s", async (_what, body) => {
    const made = await create({ rotation_mode: "workload", ...body });
    expect(made).toMatchObject({ rotation_mode: "workload", state: "ACTIVE" });
    expect(made).not.toHaveProperty("client_secret");
  });

  test("belongs to the caller's principal, shows its secret once, and works", async () => {
    const made = await create();
    expect(made).toMatchObject({
      principal_id: tenant.principalId,
      state: "ACTIVE",
      rotation_mode: "in_band",
      version: 1,
      overdue: false,
    });
    expect(await tokenStatus(made)).toBe(200);
    const read = await tenant.get(`/v1/credentials/${String(made["id"])}`);
    expect(read).toMatchObject({ status: 200, body: { versions: [{ version: 1, state: "ACTIVE" }] } });
    expect(read.text).not.toContain(String(made["client_secret"]));
    expect((await logged("credential.created")).at(-1)).toMatchObject({
      target: made["id"],
      actor: `credential:${tenant.credentialId}`,
      details: { principal_id: tenant.principalId, client_id: made["client_id"] },
    });
    expect(JSON.stringify(await logged("credential.created"))).not.toContain(made["client_secret"]);
    expect(api.log.join("")).not.toContain(made["client_secret"]);
  });

  test("can belong to another principal of the same tenant, with no scope that the token lacks", async () => {
    const narrow = await provision(api, { tenantId: tenant.tenantId, scopes: ["events:publish"] });
    expect(await create({ principal_id: narrow.principalId })).toMatchObject({
      principal_id: narrow.principalId,
    });
    const wide = await provision(api, { tenantId: tenant.tenantId, scopes: ["webhooks:replay"] });
    const answer = await tenant.post("/v1/credentials", { principal_id: wide.principalId });
    expectRefusal(answer, 403, "SCOPE_VIOLATION");
    expect(answer.body).toMatchObject({ missing_permission: "webhooks:replay" });
  });

  test("cannot be created with a token that has fewer scopes than the principal", async () => {
    const { body } = await api.token(grant(tenant, { scope: "credentials:write" }));
    const answer = await tenant.post(
      "/v1/credentials",
      {},
      { authorization: `Bearer ${String(body["access_token"])}` },
    );
    expectRefusal(answer, 403, "SCOPE_VIOLATION");
  });

  test("stores its certificate", async () => {
    const certificate = {
      san_uri: "spiffe://example/tenant/a",
      certificate_thumbprints: ["a".repeat(64)],
    };
    expect(await create(certificate)).toMatchObject(certificate);
  });
});

describe("a resource of another tenant", () => {
  test.each(["principal_id", "replaces"] as const)("is not found as %s", async (member) => {
    const foreign = member === "principal_id" ? other.principalId : other.credentialId;
    const before = await sql(api, "SELECT count(*) FROM credentials");
    expectRefusal(await tenant.post("/v1/credentials", { [member]: foreign }), 404, "NOT_FOUND");
    expect(await sql(api, "SELECT count(*) FROM credentials")).toEqual(before);
  });
});

describe("a replaced credential", () => {
  test("works for another 24 hours", async () => {
    const old = await create({ san_uri: "spiffe://example/tenant/b" });
    const made = await create({ replaces: old["id"] });
    expect(made).toMatchObject({ principal_id: old["principal_id"], san_uri: "spiffe://example/tenant/b" });
    expect((await tenant.get(`/v1/credentials/${String(old["id"])}`)).body).toMatchObject({
      replaced_by: made["id"],
    });
    expect((await logged("credential.replaced")).at(-1)).toMatchObject({
      target: old["id"],
      details: { replaced_by: made["id"] },
    });
    api.clock.advance(86_400_000 - 60_000);
    expect([await tokenStatus(old), await tokenStatus(made)]).toEqual([200, 200]);
    api.clock.advance(60_000);
    expect([await tokenStatus(old), await tokenStatus(made)]).toEqual([401, 200]);
    tenant = await renew(api, tenant);
  });

  test("works for the requested overlap, which can be 0", async () => {
    const old = await create();
    const made = await create({ replaces: old["id"], overlap_seconds: 0 });
    expect([await tokenStatus(old), await tokenStatus(made)]).toEqual([401, 200]);
    // The answer shows the effective state before the sweep has stored it.
    const { body } = await tenant.get(`/v1/credentials/${String(old["id"])}`);
    expect(body).toMatchObject({ state: "REVOKED", replaced_by: made["id"], revoked_at: anInstant() });
    expect(body["revoked_at"]).toBe(body["ends_at"]);
  });

  test("is replaced once, even by concurrent requests", async () => {
    const old = await create();
    const answers = await Promise.all(
      [1, 2, 3].map(async () => await tenant.post("/v1/credentials", { replaces: old["id"] })),
    );
    expect(answers.map(({ status }) => String(status)).toSorted()).toEqual(["201", "409", "409"]);
    expectRefusal(await tenant.post("/v1/credentials", { replaces: old["id"] }), 409, "INVALID_STATE");
  });

  test("is replaced only for its own principal", async () => {
    const narrow = await provision(api, { tenantId: tenant.tenantId, scopes: ["events:publish"] });
    const answer = await tenant.post("/v1/credentials", {
      replaces: tenant.credentialId,
      principal_id: narrow.principalId,
    });
    expectRefusal(answer, 422, "VALIDATION_FAILED");
  });
});

test("an overlap without a credential to replace is rejected", async () => {
  expectRefusal(await tenant.post("/v1/credentials", { overlap_seconds: 5 }), 422, "VALIDATION_FAILED");
});

test("a principal has at most 100 credentials", async () => {
  const full = await createTenant(api, SCOPES);
  await sql(
    api,
    `INSERT INTO credentials (id, tenant_id, principal_id, client_id, rotation_mode, created_at)
      SELECT 'crd_' || lpad(n::text, 24, '0'), $1, $2, 'cl_' || lpad(n::text, 24, '0'), 'manual', now()
        FROM generate_series(2, 100) AS n`,
    [full.tenantId, full.principalId],
  );
  expectRefusal(await full.post("/v1/credentials", {}), 422, "LIMIT_EXCEEDED");
});
