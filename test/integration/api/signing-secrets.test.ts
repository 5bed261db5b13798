/** Signing secrets of credentials: creation, rotation, revocation, requirement and permissions. */
import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { accessToken, bearer, provision } from "#test/support/factories.ts";
import {
  createProducer,
  makeSigningSecret,
  type Producer,
  PRODUCER_SCOPES,
  seconds,
  sendSigned,
  signed,
} from "#test/support/producer.ts";
import { asTenant, expectRefusal, type Json, rows, sql } from "#test/support/tenant.ts";

const api = useTestApi();
let other: Producer;

beforeAll(async () => {
  other = await createProducer(api);
});

const newEvent = (): Json & { id: string } => ({ id: randomUUID(), type: "a.b", data: {} });

describe("a signing secret", () => {
  const path = (own: Producer): string => `/v1/credentials/${own.keyId}/signing-secret`;
  const list = async (own: Producer) => rows(await own.tenant.get(path(own)));

  test("is shown once, listed without its value, and sealed at rest", async () => {
    const own = await createProducer(api);
    expect(own.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(await list(own)).toEqual([
      {
        version: 1,
        state: "GOOD",
        fingerprint: expect.stringMatching(/^[0-9a-f]{8}$/) as string,
        created_at: expect.any(String) as string,
        last_used_at: null,
        ends_at: null,
        revoked_at: null,
      },
    ]);
    const kept = await sql<{ row: string }>(api, "SELECT s::text AS row FROM producer_secrets s");
    expect(kept.map(({ row }) => row).join("\n")).not.toContain(own.secret.slice(6));
    expect(api.log.join("\n")).not.toContain(own.secret.slice(6));
  });

  test("is rotated with an overlap: both secrets are valid, then only the new one", async () => {
    const own = await createProducer(api);
    const next = { ...own, secret: await makeSigningSecret(own.tenant, { overlap_seconds: 3_600 }) };
    for (const each of [own, next]) {
      expect(await sendSigned(api, signed(each, newEvent(), seconds(api)))).toMatchObject({ status: 202 });
    }
    expectRefusal(await own.tenant.post(path(own), {}), 409, "INVALID_STATE");
    expect(await list(own)).toMatchObject([
      { version: 2, state: "GOOD" },
      { version: 1, state: "GOOD" },
    ]);
    await sql(
      api,
      "UPDATE producer_secrets SET ends_at = now() - interval '1 second' WHERE ends_at IS NOT NULL",
    );
    expectRefusal(await sendSigned(api, signed(own, newEvent(), seconds(api))), 401, "SIGNATURE_INVALID");
    expect(await sendSigned(api, signed(next, newEvent(), seconds(api)))).toMatchObject({ status: 202 });
    expect(await list(own)).toMatchObject([{ version: 2 }, { version: 1, state: "ENDED" }]);
  });

  test("without an overlap ends all others immediately", async () => {
    const own = await createProducer(api);
    await makeSigningSecret(own.tenant);
    const last = { ...own, secret: await makeSigningSecret(own.tenant, { overlap_seconds: 0 }) };
    expectRefusal(await sendSigned(api, signed(own, newEvent(), seconds(api))), 401, "SIGNATURE_INVALID");
    expect(await sendSigned(api, signed(last, newEvent(), seconds(api)))).toMatchObject({ status: 202 });
  });

  test("is erased when it is revoked, alone or with all versions", async () => {
    const own = await createProducer(api);
    const next = { ...own, secret: await makeSigningSecret(own.tenant) };
    const one = await own.tenant.post(`${path(own)}/revoke`, { version: 1, reason: "leaked" });
    expect(rows(one)).toMatchObject([
      { version: 2, state: "GOOD" },
      { version: 1, state: "REVOKED" },
    ]);
    expectRefusal(await sendSigned(api, signed(own, newEvent(), seconds(api))), 401, "SIGNATURE_INVALID");
    expect(await sendSigned(api, signed(next, newEvent(), seconds(api)))).toMatchObject({ status: 202 });
    expect(await own.tenant.post(`${path(own)}/revoke`)).toMatchObject({ status: 200 });
    expectRefusal(await sendSigned(api, signed(next, newEvent(), seconds(api))), 401, "SIGNATURE_INVALID");
    expect(
      await sql(api, "SELECT FROM producer_secrets WHERE credential_id = $1 AND secret IS NOT NULL", [
        own.keyId,
      ]),
    ).toEqual([]);
    expectRefusal(await own.tenant.post(`${path(own)}/revoke`, { version: 9 }), 404, "NOT_FOUND");
    const trail = await api.admin("GET", `/audit?tenant_id=${own.tenant.tenantId}`);
    const types = (trail.body["data"] as { type: string; details: Json }[]).map(({ type }) => type);
    expect(types.slice(0, 4)).toEqual([
      "credential.signing_secret_revoked",
      "credential.signing_secret_revoked",
      "credential.signing_secret_created",
      "credential.signing_secret_created",
    ]);
    expect(trail.text).not.toContain(own.secret.slice(6));
  });

  test("has at most two versions, even if ten requests create one concurrently", async () => {
    const own = await createProducer(api);
    const answers = await Promise.all(
      Array.from({ length: 10 }, async () => await own.tenant.post(path(own), {})),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(9);
    expect(await list(own)).toHaveLength(2);
  });

  test("is returned again for the same Idempotency-Key", async () => {
    const own = await createProducer(api);
    const key = { "idempotency-key": randomUUID() };
    const first = await own.tenant.post(path(own), {}, key);
    const second = await own.tenant.post(path(own), {}, key);
    expect([first.status, second.text]).toEqual([201, first.text]);
    expect(await list(own)).toHaveLength(2);
  });

  test("cannot be created by a token with fewer scopes than the secret could sign for", async () => {
    const owner = await createProducer(api);
    const narrow = await provision(api, { scopes: ["credentials:write"], tenantId: owner.tenant.tenantId });
    const colleague = asTenant(api, narrow, await accessToken(api, narrow));
    expectRefusal(await colleague.post(path(owner), {}), 403, "SCOPE_VIOLATION");
    const patch = { body: { signature_required: false } };
    expectRefusal(
      await colleague.send("PATCH", `/v1/credentials/${owner.keyId}`, patch),
      403,
      "SCOPE_VIOLATION",
    );
    expectRefusal(await other.tenant.post(path(owner), {}), 404, "NOT_FOUND");
  });

  test("cannot be created for a revoked credential", async () => {
    const own = await createProducer(api);
    const made = await own.tenant.post("/v1/credentials", {});
    const id = String(made.body["id"]);
    await own.tenant.post(`/v1/credentials/${id}/revoke`, {});
    expectRefusal(await own.tenant.post(`/v1/credentials/${id}/signing-secret`, {}), 409, "INVALID_STATE");
  });
});

describe("a credential that requires signatures", () => {
  const require = async (own: Producer, required: boolean) =>
    await own.tenant.send("PATCH", `/v1/credentials/${own.keyId}`, {
      body: { signature_required: required },
    });

  test("publishes only with its signature, while its token can still read", async () => {
    const own = await createProducer(api);
    const event = { type: "a.b", data: {} };
    expect(await own.tenant.post("/v1/events", event)).toMatchObject({ status: 202 });
    expect(await require(own, true)).toMatchObject({ status: 200, body: { signature_required: true } });
    expectRefusal(await own.tenant.post("/v1/events", event), 401, "SIGNATURE_INVALID");
    expect(await own.tenant.get("/v1/events")).toMatchObject({ status: 200 });
    const { body, headers } = signed(own, newEvent(), seconds(api));
    expect(await sendSigned(api, { body, headers })).toMatchObject({ status: 202 });
    const again = signed(own, newEvent(), seconds(api));
    const both = { body: again.body, headers: { ...again.headers, ...bearer(own.tenant.token) } };
    expect(await sendSigned(api, both)).toMatchObject({ status: 202 });
    expect(await require(own, false)).toMatchObject({ status: 200, body: { signature_required: false } });
    expect(await own.tenant.post("/v1/events", event)).toMatchObject({ status: 202 });
  });

  test("must have a signing secret", async () => {
    const own = await createProducer(api, PRODUCER_SCOPES);
    await own.tenant.post(`/v1/credentials/${own.keyId}/signing-secret/revoke`);
    expectRefusal(await require(own, true), 409, "INVALID_STATE");
  });
});

// The last test: it announces a revocation that the database does not have.
test("a signature becomes invalid on the notification of a revocation, before the database is asked", async () => {
  const own = await createProducer(api);
  await sql(
    api,
    `SELECT pg_notify('signet_revocations', (SELECT seq + 1 FROM rev_clock) || ':credential:' || $1)`,
    [own.keyId],
  );
  await expect
    .poll(async () => (await sendSigned(api, signed(own, newEvent(), seconds(api)))).body["code"], {
      timeout: 90_000,
    })
    .toBe("SIGNATURE_INVALID");
});
