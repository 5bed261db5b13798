/** Emergency revocation by what leaked: every kind, for operators and for tenants, without revealing a secret. */
import { createHash, randomBytes } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { newId } from "#domain/ids.ts";
import { newClientId, newClientSecret } from "#tokens/credentials/secret-format.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { makeSigningSecret } from "#test/support/producer.ts";
import {
  aSafeReceipt,
  anInstant,
  asTenant,
  createTenant,
  type Json,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useTestApi();
const SCOPES = ["credentials:read", "credentials:write", "credentials:revoke", "events:publish"];
/** Every secret and token that a test has sent. */
const sent: string[] = [];

let tenant: Tenant;

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
});

/** Creates another credential of the tenant, or of a tenant of its own. */
async function victim(credential: Json = {}, tenantId = tenant.tenantId): Promise<Provisioned> {
  return await provision(api, { scopes: ["credentials:read", "credentials:revoke"], tenantId, credential });
}

async function stranger(): Promise<Provisioned> {
  return await provision(api, { scopes: SCOPES });
}

function remembered(target: string): string {
  sent.push(target);
  return target;
}

async function asOperator(target: string, more: Json = {}): Promise<Answer> {
  return await api.admin("POST", "/revocations", { target: remembered(target), reason: "leaked", ...more });
}

async function asOwner(target: string, more: Json = {}): Promise<Answer> {
  return await tenant.post("/v1/revocations", { target: remembered(target), reason: "leaked", ...more });
}

const PARTIES = [
  ["an operator", asOperator],
  ["a tenant", asOwner],
] as const;

function revokedOf(answer: Answer): Json {
  expect(answer, answer.text).toMatchObject({ status: 200 });
  const [revoked, ...others] = answer.body["revoked"] as Json[];
  expect(others).toEqual([]);
  return revoked ?? {};
}

/** Checks that a token is rejected, and whether its credential gets another. */
async function expectEnded(
  client: Provisioned,
  token: string,
  more: { readonly alive: boolean },
): Promise<void> {
  expect(await api.request("/v1/credentials", { headers: bearer(token) })).toMatchObject({
    status: 401,
    body: { code: "TOKEN_REVOKED" },
  });
  expect((await api.token(grant(client))).status).toBe(more.alive ? 200 : 401);
}

function thumbprint(): { readonly hex: string; readonly x5t: string } {
  const digest = createHash("sha256").update(randomBytes(16)).digest();
  return { hex: digest.toString("hex"), x5t: digest.toString("base64url") };
}

describe.each(PARTIES)("%s revokes", (_party, revoke) => {
  test.each([
    ["a client id", (client: Provisioned) => client.clientId, null],
    ["a credential's id", (client: Provisioned) => client.credentialId, null],
    ["a client secret", (client: Provisioned) => client.clientSecret, 1],
  ])("a credential by %s, with a receipt that names the processes", async (_form, of, version) => {
    const client = await victim();
    const token = await accessToken(api, client);
    const answer = await revoke(of(client));
    expect(revokedOf(answer)).toEqual({
      kind: "credential",
      target: client.credentialId,
      tenant_id: client.tenantId,
      credential_id: client.credentialId,
      client_id: client.clientId,
      version,
      expires_at: null,
      expired: false,
    });
    expect(answer.body).toMatchObject({
      committed_at: anInstant(),
      edges: aSafeReceipt(),
    });
    await expectEnded(client, token, { alive: false });
    // The same revocation answers again, also by another name.
    expect((await revoke(client.clientId)).body["revocation_id"]).toBe(answer.body["revocation_id"]);
  });

  test("a credential by a secret that has a successor", async () => {
    const client = await victim();
    const pepper = randomBytes(32);
    await sql(
      api,
      `INSERT INTO secret_versions (credential_id, version, tenant_id, mac, mac_key_id, state, issued_at, acked_at)
       VALUES ($1, 2, $2, $3, 'other', 'ACTIVE', now(), now())`,
      [client.credentialId, client.tenantId, pepper],
    );
    await sql(
      api,
      "UPDATE secret_versions SET state = 'RETIRED', retired_at = now() WHERE credential_id = $1 AND version = 1",
      [client.credentialId],
    );
    expect(revokedOf(await revoke(client.clientSecret))).toMatchObject({
      target: client.credentialId,
      version: 1,
    });
  });

  test("one version of a signing secret, and leaves the credential valid", async () => {
    const client = await victim();
    const owner = asTenant(api, tenant, await accessToken(api, tenant));
    const producer = { ...owner, credentialId: client.credentialId };
    const [leaked, kept] = [await makeSigningSecret(producer), await makeSigningSecret(producer)];
    const answer = await revoke(leaked);
    expect(revokedOf(answer)).toMatchObject({
      kind: "signing_secret",
      target: client.credentialId,
      client_id: client.clientId,
      version: 1,
    });
    expect(answer.body).toMatchObject({ edges: aSafeReceipt(), compliance: {} });
    const { body } = await owner.get(`/v1/credentials/${client.credentialId}/signing-secret`);
    expect(body["data"]).toMatchObject([
      { version: 2, state: "GOOD" },
      { version: 1, state: "REVOKED" },
    ]);
    expect((await api.token(grant(client))).status).toBe(200);
    expect(await revoke(leaked)).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
    expect(revokedOf(await revoke(kept))).toMatchObject({ version: 2 });
  });

  test("a whole token alone, also as in a header, and says whether it had expired", async () => {
    const client = await victim();
    const token = await accessToken(api, client);
    const other = await accessToken(api, client);
    const answer = await revoke(`Bearer ${token}`);
    expect(revokedOf(answer)).toMatchObject({
      kind: "jti",
      tenant_id: client.tenantId,
      credential_id: client.credentialId,
      client_id: client.clientId,
      expires_at: anInstant(),
      expired: false,
    });
    await expectEnded(client, token, { alive: true });
    expect((await api.request("/v1/credentials", { headers: bearer(other) })).status).toBe(200);
    expect((await revoke(token)).body["revocation_id"]).toBe(answer.body["revocation_id"]);
  });

  test.each([
    ["a forged signature", (token: string) => token.replace(/[^.]{8}$/, "AAAAAAAA")],
    [
      "other claims",
      (token: string) => {
        const [header, payload = "", signature] = token.split(".");
        const claims = JSON.parse(Buffer.from(payload, "base64url").toString()) as Json;
        const changed = Buffer.from(JSON.stringify({ ...claims, jti: "A".repeat(22) })).toString("base64url");
        return [header, changed, signature].join(".");
      },
    ],
    [
      "no algorithm",
      (token: string) =>
        `${Buffer.from('{"alg":"none","typ":"at+jwt"}').toString("base64url")}.${token.split(".")[1]}.AA`,
    ],
  ])("no token with %s", async (_name, forge) => {
    const client = await victim();
    const forged = forge(await accessToken(api, client));
    const answer = await revoke(forged);
    expect(answer).toMatchObject({
      status: 422,
      body: { code: "VALIDATION_FAILED", errors: [{ pointer: "/target", code: "signature" }] },
    });
    expect(await sql(api, "SELECT FROM revocations WHERE target = $1", ["A".repeat(22)])).toEqual([]);
  });

  test.each([
    ["client secret", () => newClientSecret("production", randomBytes)],
    ["signing secret", () => generateSecret(randomBytes)],
    ["client id", () => newClientId(randomBytes)],
    ["credential's id", () => newId("credential", Date.now(), randomBytes)],
    ["thumbprint", () => thumbprint().x5t],
  ])("nothing by a %s that matches nothing", async (_form, make) => {
    const answer = await revoke(make());
    expect(answer).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
  });

  test("and holds the tenant with it", async () => {
    const client = await victim({}, undefined);
    expect((await revoke(client.clientSecret, { scope: "tenant" })).status).toBe(200);
    expect((await api.admin("GET", `/tenants/${client.tenantId}`)).body).toMatchObject({
      held_at: anInstant(),
    });
    await api.admin("POST", `/tenants/${client.tenantId}/release`, {});
  });
});

describe("an operator", () => {
  test("revokes a token by its jti", async () => {
    const client = await victim();
    const token = await accessToken(api, client);
    const { jti } = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as {
      jti: string;
    };
    expect(revokedOf(await asOperator(jti))).toMatchObject({
      kind: "jti",
      target: jti,
      tenant_id: null,
      expires_at: null,
    });
    await expectEnded(client, token, { alive: true });
  });

  test("revokes a certificate by its SHA-256, and by its x5t#S256 if a credential names it", async () => {
    const unknown = thumbprint();
    expect(revokedOf(await asOperator(unknown.hex.toUpperCase()))).toMatchObject({
      kind: "cert",
      target: unknown.hex,
    });
    const known = thumbprint();
    await victim({ certificate_thumbprints: [known.hex] });
    expect(revokedOf(await asOperator(known.x5t))).toMatchObject({ kind: "cert", target: known.hex });
    const named = thumbprint();
    expect(revokedOf(await asOperator(named.x5t, { kind: "cert" }))).toMatchObject({ target: named.hex });
  });

  test("revokes a signing key by its id, with a reason", async () => {
    const client = await victim();
    const token = await accessToken(api, client);
    const { kid } = JSON.parse(Buffer.from(token.split(".")[0] ?? "", "base64url").toString()) as {
      kid: string;
    };
    expect(await api.admin("POST", "/revocations", { target: kid })).toMatchObject({
      status: 422,
      body: { errors: [{ pointer: "/reason", code: "required" }] },
    });
    expect(await asOperator(kid, { scope: "tenant" })).toMatchObject({
      status: 422,
      body: { errors: [{ pointer: "/scope" }] },
    });
    expect(revokedOf(await asOperator(kid))).toMatchObject({ kind: "kid", target: kid });
    await expectEnded(client, token, { alive: true });
    // A token of a key that is gone is still recognized.
    expect(revokedOf(await asOperator(token))).toMatchObject({ kind: "jti", client_id: client.clientId });
    tenant = asTenant(api, tenant, await accessToken(api, tenant));
    expect(await asOperator(thumbprint().x5t, { kind: "kid" })).toMatchObject({ status: 404 });
  });
});

describe("a tenant", () => {
  test("gets the same 404 for another tenant's objects as for unknown ones, without effect", async () => {
    const other = await stranger();
    const token = await accessToken(api, other);
    const owner = asTenant(api, other, token);
    const certificate = thumbprint();
    await victim({ certificate_thumbprints: [certificate.hex] }, other.tenantId);
    const pairs = [
      [other.clientId, newClientId(randomBytes)],
      [other.credentialId, newId("credential", Date.now(), randomBytes)],
      [other.clientSecret, newClientSecret("production", randomBytes)],
      [await makeSigningSecret(owner), generateSecret(randomBytes)],
      [certificate.hex, thumbprint().hex],
      [certificate.x5t, thumbprint().x5t],
    ] as const;
    for (const [foreign, unknown] of pairs) {
      const answer = await asOwner(foreign);
      expect(answer).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
      expect(answer.body["detail"]).toBe((await asOwner(unknown)).body["detail"]);
    }
    expect(await asOwner(token)).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
    expect((await owner.get("/v1/credentials")).status).toBe(200);
    expect(await sql(api, "SELECT FROM revocations WHERE tenant_id = $1", [other.tenantId])).toEqual([]);
    expect(await sql(api, "SELECT FROM revocations WHERE target = $1", [certificate.hex])).toEqual([]);
  });

  test("ends its own credentials that name a certificate, and nobody else's", async () => {
    const other = await stranger();
    const { hex, x5t } = thumbprint();
    const mine = [
      await victim({ certificate_thumbprints: [hex] }),
      await victim({ certificate_thumbprints: [hex] }),
    ];
    const foreign = await victim({ certificate_thumbprints: [hex] }, other.tenantId);
    const answer = await asOwner(x5t);
    expect(answer, answer.text).toMatchObject({ status: 200, body: { edges: aSafeReceipt() } });
    const revoked = answer.body["revoked"] as { target: string }[];
    expect(revoked.map(({ target }) => target).toSorted()).toEqual(
      mine.map(({ credentialId }) => credentialId).toSorted(),
    );
    expect((await api.admin("GET", `/credentials/${foreign.credentialId}`)).body).toMatchObject({
      state: "ACTIVE",
    });
  });

  test("must send the whole token instead of its jti, which proves nothing", async () => {
    const jti = randomBytes(16).toString("base64url");
    expect(await asOwner(jti)).toMatchObject({
      status: 422,
      body: { errors: [{ pointer: "/target", code: "whole_token" }] },
    });
    expect(await sql(api, "SELECT FROM revocations WHERE target = $1", [jti])).toEqual([]);
  });

  test("needs credentials:revoke", async () => {
    const client = await victim();
    const reader = asTenant(api, tenant, await accessToken(api, tenant, "credentials:read"));
    expect(await reader.post("/v1/revocations", { target: client.clientId })).toMatchObject({
      status: 403,
      body: { code: "SCOPE_VIOLATION", missing_permission: "credentials:revoke" },
    });
  });
});

test.each([
  [{ target: "" }],
  [{ target: "x".repeat(4_161) }],
  [{ target: 7 }],
  [{ target: "cl_x", secret: "x" }],
  [{ target: "cl_x", scope: "everyone" }],
  [{ target: "cl_x", reason: "a\u0007" }],
])("the body %j is rejected by both APIs", async (body) => {
  expect((await api.admin("POST", "/revocations", body)).status).toBe(422);
  expect((await tenant.post("/v1/revocations", body)).status).toBe(422);
});

test("the receipt in the compliance log names the processes", async () => {
  const client = await victim();
  const { body } = await asOwner(client.clientId);
  const rows = await eventually(async () => {
    const found = await sql<{ details: Json }>(
      api,
      `SELECT convert_from(entry, 'UTF8')::jsonb -> 'details' AS details FROM clog
        WHERE type = 'revocation.propagated' AND convert_from(entry, 'UTF8')::jsonb ->> 'target' = $1`,
      [body["revocation_id"]],
    );
    return found.length > 0 && found;
  }, "the entry");
  const { live, max_ms, acked, outcome, processes } = body["edges"] as Json;
  const lease_expired = Number(live) - Number(acked);
  expect(rows).toEqual([{ details: { edges: live, acked, lease_expired, max_ms, outcome, processes } }]);
});

test("an expired token is revoked, and the answer says that it had expired", async () => {
  const client = await victim();
  const token = await accessToken(api, client);
  api.clock.advance(16 * 60_000);
  tenant = asTenant(api, tenant, await accessToken(api, tenant));
  for (const [, revoke] of PARTIES) {
    expect(revokedOf(await revoke(token))).toMatchObject({
      kind: "jti",
      expired: true,
      expires_at: anInstant(),
    });
  }
});

test("no secret and no token reached the log, an answer, or a table", async () => {
  const client = await victim();
  const owner = { ...tenant, credentialId: client.credentialId };
  const signingSecret = remembered(await makeSigningSecret(owner));
  const token = remembered(await accessToken(api, client));
  const { clientSecret } = client;
  const headers = { "idempotency-key": randomBytes(8).toString("hex") };
  const answers = [
    await tenant.post("/v1/revocations", { target: `${clientSecret}x` }, headers),
    await tenant.post("/v1/revocations", { target: signingSecret }, { "idempotency-key": "signing" }),
    await tenant.post("/v1/revocations", { target: token }, { "idempotency-key": "token" }),
    await tenant.post("/v1/revocations", { target: remembered(clientSecret) }, headers),
    await api.admin("POST", "/revocations", { target: clientSecret, kind: "jti" }),
    await api.admin("GET", `/credentials/${clientSecret}`),
    await api.admin("POST", `/credentials/${clientSecret}/revoke`, {}),
  ];
  expect(answers.map(({ status }) => status)).toEqual([422, 200, 200, 200, 422, 404, 404]);
  const secrets = sent.filter((text) => /^(sgn_|whsec_|Bearer|eyJ)/.test(text));
  expect(secrets.length).toBeGreaterThan(10);
  const tables = ["revocations", "idempotent_answers", "clog"];
  const stored = await Promise.all(
    tables.map(async (table) => {
      const column = table === "clog" ? "convert_from(entry, 'UTF8')" : `t::text`;
      const rows = await sql<{ text: string }>(api, `SELECT ${column} AS text FROM ${table} t`, []);
      expect(rows.length, table).toBeGreaterThan(0);
      return rows.map(({ text }) => text).join("\n");
    }),
  );
  // A problem document repeats the request's own path to the caller, and nothing else of it.
  const bodies = answers.map(({ body: { instance: _path, ...rest } }) => JSON.stringify(rest));
  const places = [api.log.join(""), ...stored, ...bodies];
  const leaked = secrets.filter((secret) =>
    places.some((place) => place.includes(secret) || place.includes(Buffer.from(secret).toString("hex"))),
  );
  expect(leaked.map((secret) => secret.slice(0, 8))).toEqual([]);
});
