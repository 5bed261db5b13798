/** `POST /v1/credentials/{id}/revoke` and the operators' routes: their answers, access and idempotency. */
import { randomBytes } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import { newId } from "#domain/ids.ts";
import { newClientId } from "#tokens/credentials/secret-format.ts";
import { accessToken, bearer, provision, type Provisioned } from "#test/support/factories.ts";
import { aSafeReceipt, anId, anInstant, sql } from "#test/support/tenant.ts";

const api = useSharedApi();
let client: Provisioned;
/** Creates another credential of the same principal, which remains valid. */
let remaining: Provisioned;

beforeEach(async () => {
  client = await provision(api, { scopes: ["credentials:revoke", "credentials:read"] });
  const { body } = await api.admin("POST", `/principals/${client.principalId}/credentials`, {});
  remaining = {
    ...client,
    credentialId: String(body["id"]),
    clientId: String(body["client_id"]),
    clientSecret: String(body["client_secret"]),
  };
});

async function revoke(id: string, body?: unknown, as = remaining): Promise<Answer> {
  return await api.request(`/v1/credentials/${id}/revoke`, {
    method: "POST",
    headers: {
      ...bearer(await accessToken(api, as)),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

/** Returns the body without the receipt, whose times depend on when each request looked. */
function revocationIn({ body: { edges, ...revocation } }: Answer): unknown {
  expect(edges).toEqual(aSafeReceipt());
  return revocation;
}

async function entry(index: number): Promise<Readonly<Record<string, unknown>>> {
  const rows = await sql<{ entry: Readonly<Record<string, unknown>>; leaf: string }>(
    api,
    "SELECT convert_from(entry, 'UTF8')::jsonb AS entry, encode(leaf_hash, 'hex') AS leaf FROM clog WHERE idx = $1",
    [index],
  );
  return { ...rows[0]?.entry, leaf: rows[0]?.leaf };
}

test("the answer has the revocation, its sequence number and its entry in the compliance log", async () => {
  const answer = await revoke(client.credentialId, { reason: "laptop lost" });
  expect(answer).toMatchObject({ status: 200 });
  expect(answer.body).toEqual({
    revocation_id: anId("revocation"),
    sequence: expect.any(Number),
    committed_at: anInstant(),
    compliance: { log_index: expect.any(Number), leaf_hash: expect.stringMatching(/^[0-9a-f]{64}$/) },
    edges: aSafeReceipt(),
  });
  const { compliance } = answer.body as { compliance: { log_index: number; leaf_hash: string } };
  expect(await entry(compliance.log_index)).toMatchObject({
    type: "credential.revoked",
    actor: `credential:${remaining.credentialId}`,
    tenant: client.tenantId,
    target: client.credentialId,
    reason: "laptop lost",
    request_id: answer.headers.get("x-request-id"),
    details: { revocation_id: answer.body["revocation_id"] },
    leaf: compliance.leaf_hash,
  });
  const shown = await api.request(`/v1/credentials/${client.credentialId}`, {
    headers: bearer(await accessToken(api, remaining)),
  });
  expect(shown.body).toMatchObject({ state: "REVOKED", revoked_at: anInstant() });
});

test("repeated, concurrent and operators' requests get the same answer and leave one entry", async () => {
  const answers = await Promise.all([
    revoke(client.credentialId, { reason: "a" }),
    revoke(client.credentialId, { reason: "b" }),
    revoke(client.credentialId),
    api.admin("POST", `/credentials/${client.credentialId}/revoke`, { reason: "c" }),
  ]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  const [first, ...others] = answers.map(revocationIn);
  expect(others).toEqual([first, first, first]);
  expect(
    await sql(api, "SELECT FROM clog WHERE tenant_id = $1 AND type = 'credential.revoked'", [
      client.tenantId,
    ]),
  ).toHaveLength(1);
});

test("only the revoked credential ends, not the principal's others", async () => {
  await revoke(client.credentialId);
  expect(await revoke(client.credentialId)).toMatchObject({ status: 200 });
});

describe("a client id", () => {
  test("names a credential to its tenant", async () => {
    const shown = await api.request(`/v1/credentials/${client.clientId}`, {
      headers: bearer(await accessToken(api, remaining)),
    });
    expect(shown).toMatchObject({
      status: 200,
      body: { id: client.credentialId, versions: [{ version: 1 }] },
    });
    const stranger = await provision(api, { scopes: ["credentials:revoke"] });
    expect(await revoke(client.clientId, undefined, stranger)).toMatchObject({ status: 404 });
    const answer = await revoke(client.clientId);
    expect(answer).toMatchObject({ status: 200 });
    expect(revocationIn(await revoke(client.credentialId))).toEqual(revocationIn(answer));
  });

  test("names a credential to operators", async () => {
    expect(await api.admin("GET", `/credentials/${client.clientId}`)).toMatchObject({
      status: 200,
      body: { id: client.credentialId, versions: [{ version: 1 }] },
    });
    const answer = await api.admin("POST", `/credentials/${client.clientId}/revoke`, {});
    expect(answer).toMatchObject({ status: 200 });
    const again = await api.admin("POST", `/credentials/${client.credentialId}/revoke`, {});
    expect(revocationIn(again)).toEqual(revocationIn(answer));
    for (const unknown of [newClientId(randomBytes), "cl_short"]) {
      expect(await api.admin("GET", `/credentials/${unknown}`)).toMatchObject({
        status: 404,
        body: { detail: "There is no such credential." },
      });
    }
  });
});

describe("a caller without permission", () => {
  test("of another tenant gets the same answer as for an unknown id, without effect", async () => {
    const stranger = await provision(api, { scopes: ["credentials:revoke"] });
    const foreign = await revoke(client.credentialId, undefined, stranger);
    const never = await revoke(newId("credential", Date.now(), randomBytes), undefined, stranger);
    expect(foreign).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
    expect(foreign.body["detail"]).toBe(never.body["detail"]);
    expect(await api.admin("GET", `/credentials/${client.credentialId}`)).toMatchObject({
      body: { state: "ACTIVE" },
    });
    expect(await sql(api, "SELECT FROM revocations WHERE target = $1", [client.credentialId])).toEqual([]);
  });

  test("without the scope is rejected", async () => {
    const reader = await provision(api, { tenantId: client.tenantId, scopes: ["credentials:read"] });
    expect(await revoke(client.credentialId, undefined, reader)).toMatchObject({
      status: 403,
      body: { code: "SCOPE_VIOLATION", missing_permission: "credentials:revoke" },
    });
  });
});

test.each([
  ["null", 422],
  ["[]", 422],
  ['{"reason":""}', 422],
  ['{"reason":"a\\u0007b"}', 422],
  [JSON.stringify({ reason: "x".repeat(501) }), 422],
  ['{"why":"x"}', 422],
  ['{"reason":1}', 422],
])("the body %s is rejected and revokes nothing", async (body, status) => {
  const answer = await api.request(`/v1/credentials/${client.credentialId}/revoke`, {
    method: "POST",
    headers: { ...bearer(await accessToken(api, remaining)), "content-type": "application/json" },
    body,
  });
  expect(answer.status).toBe(status);
  expect(await sql(api, "SELECT FROM revocations WHERE target = $1", [client.credentialId])).toEqual([]);
});

describe("operators", () => {
  test.each([
    ["principals", () => client.principalId, "principal.revoked"],
    ["tenants", () => client.tenantId, "tenant.revoked"],
  ])("revoke %s idempotently", async (path, id, type) => {
    const first = await api.admin("POST", `/${path}/${id()}/revoke`);
    expect(first).toMatchObject({ status: 200 });
    const again = await api.admin("POST", `/${path}/${id()}/revoke`, { reason: "x" });
    expect(revocationIn(again)).toEqual(revocationIn(first));
    const { log_index: index } = first.body["compliance"] as { log_index: number };
    expect(await entry(index)).toMatchObject({ type, target: id(), tenant: client.tenantId });
  });

  test("see revocations", async () => {
    await api.admin("POST", `/principals/${client.principalId}/revoke`);
    await api.admin("POST", `/tenants/${client.tenantId}/revoke`);
    expect((await api.admin("GET", `/principals/${client.principalId}`)).body).toMatchObject({
      state: "REVOKED",
    });
    expect((await api.admin("GET", `/tenants/${client.tenantId}`)).body).toMatchObject({
      state: "SUSPENDED",
    });
  });

  test.each([
    ["jti", randomBytes(16).toString("base64url"), "token.revoked"],
    ["cert", randomBytes(32).toString("hex"), "certificate.revoked"],
  ])("revoke by %s idempotently", async (kind, target, type) => {
    const first = await api.admin("POST", "/revocations", { kind, target, reason: "stolen" });
    expect(first).toMatchObject({ status: 200 });
    const again = await api.admin("POST", "/revocations", { kind, target });
    expect(revocationIn(again)).toEqual(revocationIn(first));
    const { log_index: index } = first.body["compliance"] as { log_index: number };
    expect(await entry(index)).toMatchObject({ type, target, tenant: null, reason: "stolen" });
  });

  test.each([
    { kind: "jti", target: "short" },
    { kind: "cert", target: "AB".repeat(31) },
    { kind: "kid", target: randomBytes(16).toString("base64url") },
    { kind: "tenant", target: "ten_x" },
    {},
  ])("cannot revoke %j", async (body) => {
    expect(await api.admin("POST", "/revocations", body)).toMatchObject({
      status: 422,
      body: { code: "VALIDATION_FAILED" },
    });
  });

  test("get a 404 for unknown objects", async () => {
    const never = newId("principal", Date.now(), randomBytes);
    expect(await api.admin("POST", `/principals/${never}/revoke`)).toMatchObject({ status: 404 });
  });
});
