/** Ed25519 signatures as an option of an endpoint, and scheduled rotation of secrets. */
import {
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  verify as verifyBytes,
} from "node:crypto";
import { compactDecrypt } from "jose";
import { describe, expect, test } from "vitest";
import { createPool } from "#database/pool.ts";
import { rotateOnSchedule } from "#webhooks/endpoints/scheduled-rotation.ts";
import { sweepSecrets } from "#webhooks/endpoints/secret-sweep.ts";
import { createLogger } from "#observability/logger.ts";
import { useTestApi } from "#test/support/api.ts";
import {
  accepts,
  later,
  makeRotatingEndpoint,
  rotate,
  type RotatingEndpoint,
  storedSecrets,
} from "#test/support/rotating-endpoint.ts";
import { keyringOf, signDeliveryNow, type SignedDelivery } from "#test/support/signed-delivery.ts";
import { createEndpoint, expectRefusal, type Json, rows, sql } from "#test/support/tenant.ts";
import { verify } from "#lib/receiver/verify.ts";

const api = useTestApi();
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

async function set({ tenant, path }: RotatingEndpoint, body: Json): Promise<Json> {
  const answer = await tenant.send("PATCH", path, { body });
  expect(answer).toMatchObject({ status: 200 });
  return answer.body;
}

async function versionsOf({ tenant, path }: RotatingEndpoint): Promise<readonly Json[]> {
  return rows(await tenant.get(path));
}

async function publicKeys(endpoint: RotatingEndpoint): Promise<string[]> {
  return (await versionsOf(endpoint)).map(({ public_key: key }) => String(key));
}

function acceptsKey(publicKey: string, { body, headers, atMs }: SignedDelivery): boolean {
  try {
    return verify({ rawBody: body, headers, secrets: [publicKey], now: atMs }).scheme === "v1a";
  } catch {
    return false;
  }
}

/** Runs the worker's upkeep, which is due every minute. */
async function upkeep(): Promise<number> {
  const log = createLogger({ level: "error" });
  const pool = createPool({ url: api.database.url, role: "signet_worker", max: 2, log });
  const services = { pool, keyring: keyringOf(api), clock: api.clock, randomBytes, log };
  try {
    await sweepSecrets(services);
    return await rotateOnSchedule({ ...services, deadLetterMs: 7 * DAY_MS });
  } finally {
    await pool.end();
  }
}

describe("an endpoint that signs with Ed25519", () => {
  test("adds v1a to the existing signatures; its public key is shown and its private key is sealed", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    expect(await set(endpoint, { signing: "ed25519" })).toMatchObject({ signing: "ed25519" });
    const [publicKey = ""] = await publicKeys(endpoint);
    expect(publicKey).toMatch(/^whpk_[A-Za-z0-9+/]{43}=$/);
    const signed = await signDeliveryNow(api, endpoint.tenant, endpoint.id);
    expect([acceptsKey(publicKey, signed), accepts(endpoint.secret, signed)]).toEqual([true, true]);
    const [stored] = await sql<{ signing_key: string }>(
      api,
      "SELECT signing_key FROM endpoint_secrets WHERE endpoint_id = $1",
      [endpoint.id],
    );
    expect(stored?.signing_key).toMatch(/^v1\./);
    await set(endpoint, { signing: "hmac-sha256" });
    expect(acceptsKey(publicKey, await signDeliveryNow(api, endpoint.tenant, endpoint.id))).toBe(false);
  });

  test("rotates its keys with its secret; both public keys verify until the overlap ends", async () => {
    let endpoint = await makeRotatingEndpoint(api);
    await set(endpoint, { signing: "ed25519" });
    await rotate(endpoint, { overlap_seconds: 3_600 });
    const [next = "", old = ""] = await publicKeys(endpoint);
    expect(next).not.toBe(old);
    for (const wait of [0, HOUR_MS + 1_000]) {
      endpoint = await later(api, endpoint, wait);
      const signed = await signDeliveryNow(api, endpoint.tenant, endpoint.id);
      expect([acceptsKey(old, signed), acceptsKey(next, signed)]).toEqual([true, true]);
    }
    endpoint = await later(api, endpoint, HOUR_MS);
    const afterOverlap = await signDeliveryNow(api, endpoint.tenant, endpoint.id);
    expect([acceptsKey(old, afterOverlap), acceptsKey(next, afterOverlap)]).toEqual([false, true]);
  });

  test("keeps no private key after its deletion, nor one of a version that has ended", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    await set(endpoint, { signing: "ed25519" });
    await rotate(endpoint, { overlap_seconds: 0 });
    const keys = async (): Promise<unknown[]> =>
      await sql(
        api,
        "SELECT signing_key IS NULL AS erased FROM endpoint_secrets WHERE endpoint_id = $1 ORDER BY version",
        [endpoint.id],
      );
    expect(await keys()).toEqual([{ erased: true }, { erased: false }]);
    await endpoint.tenant.send("DELETE", `/v1/webhooks/endpoints/${endpoint.id}`);
    expect(await keys()).toEqual([{ erased: true }, { erased: true }]);
  });
});

describe("a scheduled rotation", () => {
  const pairs: readonly [string, () => { publicKey: KeyObject; privateKey: KeyObject }][] = [
    ["RSA", () => generateKeyPairSync("rsa", { modulusLength: 2_048 })],
    ["P-256", () => generateKeyPairSync("ec", { namedCurve: "P-256" })],
    ["X25519", () => generateKeyPairSync("x25519")],
  ];

  test.each(pairs)("encrypts the new secret to the tenant's key: %s", async (_name, makePair) => {
    let endpoint = await makeRotatingEndpoint(api);
    const { publicKey, privateKey } = makePair();
    const watcher = await createEndpoint(api, endpoint.tenant, { events: ["endpoint.secret_rotated"] });
    const recipient = { ...publicKey.export({ format: "jwk" }), kid: "k1" };
    expect(await set(endpoint, { rotation_days: 30, recipient })).toMatchObject({
      rotation_days: 30,
      recipient,
    });
    endpoint = await later(api, endpoint, 30 * DAY_MS - HOUR_MS);
    await upkeep();
    expect(await versionsOf(endpoint)).toHaveLength(1);
    endpoint = await later(api, endpoint, 2 * HOUR_MS);
    expect(await upkeep()).toBeGreaterThanOrEqual(1);
    expect(await upkeep()).toBe(0);
    const [version] = await versionsOf(endpoint);
    expect(version).toMatchObject({ version: 2, state: "NEXT" });
    const opened = await compactDecrypt(String(version?.["encrypted_secret"]), privateKey);
    const next = Buffer.from(opened.plaintext).toString("utf8");
    expect(next).toMatch(/^whsec_/);
    const signed = await signDeliveryNow(api, endpoint.tenant, endpoint.id);
    expect([accepts(endpoint.secret, signed), accepts(next, signed)]).toEqual([true, true]);
    expect(
      await sql(
        api,
        "SELECT type FROM deliveries d JOIN events e ON e.day = d.day AND e.id = d.event_id WHERE d.endpoint_id = $1",
        [watcher.id],
      ),
    ).toEqual([{ type: "endpoint.secret_rotated" }]);
    endpoint = await later(api, endpoint, 2 * DAY_MS + HOUR_MS);
    await upkeep();
    expect(await storedSecrets(api, endpoint.id)).toEqual(["", expect.stringMatching(/^v1\./)]);
    const afterOverlap = await signDeliveryNow(api, endpoint.tenant, endpoint.id);
    expect([accepts(endpoint.secret, afterOverlap), accepts(next, afterOverlap)]).toEqual([false, true]);
  });

  test("of Ed25519 without a recipient replaces the key pair and keeps the secret", async () => {
    let endpoint = await makeRotatingEndpoint(api);
    await set(endpoint, { signing: "ed25519", rotation_days: 1 });
    const [old = ""] = await publicKeys(endpoint);
    for (let round = 0; round < 2; round += 1) {
      endpoint = await later(api, endpoint, 4 * DAY_MS);
      await upkeep();
    }
    const [next = ""] = await publicKeys(endpoint);
    expect(next).not.toBe(old);
    const signed = await signDeliveryNow(api, endpoint.tenant, endpoint.id);
    expect([acceptsKey(next, signed), accepts(endpoint.secret, signed)]).toEqual([true, true]);
    expect(signed.headers).not.toHaveProperty("X-Service-Signature-256-Alt");
  });

  test("that cannot start for many endpoints does not delay other endpoints", async () => {
    const broken = await makeRotatingEndpoint(api);
    await set(broken, { signing: "ed25519", rotation_days: 1 });
    // A value sealed for one endpoint cannot be opened for another.
    const copies = async (table: string, id: string, columns: string): Promise<void> => {
      await sql(
        api,
        `INSERT INTO ${table} (${id}, ${columns}) SELECT left(${id}, -3) || lpad(i::text, 3, '0'), ${columns}
          FROM ${table}, generate_series(1, 120) i WHERE ${id} = $1`,
        [broken.id],
      );
    };
    const named = "tenant_id, url, event_types, secret_rotation_days, state, verification_state";
    await copies("endpoints", "id", `${named}, verification_requested_at, created_at, updated_at`);
    const kept = "tenant_id, version, secret, fingerprint, state, created_at, signing_key, public_key";
    await copies("endpoint_secrets", "endpoint_id", kept);
    let endpoint = await makeRotatingEndpoint(api);
    await set(endpoint, { signing: "ed25519", rotation_days: 1 });
    endpoint = await later(api, endpoint, 2 * DAY_MS);
    expect(await upkeep()).toBeGreaterThanOrEqual(2);
    expect(await versionsOf(endpoint)).toHaveLength(2);
  });

  test("is rejected without a recipient for the secret, with an invalid period, or with an unsuitable or private key", async () => {
    const { tenant, path } = await makeRotatingEndpoint(api);
    const change = async (body: Json): Promise<void> => {
      expectRefusal(await tenant.send("PATCH", path, { body }), 422, "VALIDATION_FAILED");
    };
    await change({ rotation_days: 30 });
    await change({ rotation_days: 0 });
    await change({ rotation_days: 366 });
    await change({ recipient: { kty: "RSA", n: "AQAB", e: "AQAB" } });
    await change({ recipient: { kty: "OKP", crv: "X25519" } });
    const { privateKey } = generateKeyPairSync("x25519");
    await change({ recipient: privateKey.export({ format: "jwk" }) });
  });
});

describe("the public key set", () => {
  const read = async (id: string, headers: Record<string, string> = {}) =>
    await api.request(`/.well-known/webhooks/${id}/jwks.json`, { headers });

  function keyIds(body: Json): string[] {
    return (body["keys"] as { kid: string }[]).map(({ kid }) => kid);
  }

  test("shows everyone the public keys of an endpoint and of its tenant, in a form that jose accepts", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    expectRefusal(await read(endpoint.id), 404, "NOT_FOUND");
    await set(endpoint, { signing: "ed25519" });
    const [publicKey = ""] = await publicKeys(endpoint);
    const answer = await read(endpoint.id);
    expect(answer).toMatchObject({
      status: 200,
      body: { keys: [{ kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", kid: `${endpoint.id}.1` }] },
    });
    const [key] = answer.body["keys"] as (Json & { x: string })[];
    expect(Object.keys(key ?? {}).toSorted()).toEqual(["alg", "crv", "kid", "kty", "use", "x"]);
    expect(`whpk_${Buffer.from(key?.x ?? "", "base64url").toString("base64")}`).toBe(publicKey);
    const { body, headers } = await signDeliveryNow(api, endpoint.tenant, endpoint.id);
    const signature = String(headers["webhook-signature"])
      .split(" ")
      .find((value) => value.startsWith("v1a,"));
    const imported = createPublicKey({ key: { ...key }, format: "jwk" });
    const text = Buffer.concat([
      Buffer.from(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`),
      Buffer.from(body),
    ]);
    expect(verifyBytes(null, text, imported, Buffer.from(signature?.slice(4) ?? "", "base64"))).toBe(true);
    expect(keyIds((await read(endpoint.tenant.tenantId)).body)).toEqual([`${endpoint.id}.1`]);
  });

  test("keeps the previous key during its overlap, answers 304 to a current ETag, and drops deleted endpoints", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    await set(endpoint, { signing: "ed25519" });
    const first = await read(endpoint.id);
    const etag = first.headers.get("etag") ?? "";
    expect(first.headers.get("cache-control")).toBe("public, max-age=300");
    expect((await read(endpoint.id, { "if-none-match": etag.replace("W/", "") })).status).toBe(304);
    await rotate(endpoint);
    api.clock.advance(10_000);
    const both = await read(endpoint.id, { "if-none-match": etag });
    expect(both.status).toBe(200);
    expect(keyIds(both.body)).toEqual([`${endpoint.id}.2`, `${endpoint.id}.1`]);
    expect(await endpoint.tenant.send("DELETE", `/v1/webhooks/endpoints/${endpoint.id}`)).toMatchObject({
      status: 204,
    });
    api.clock.advance(10_000);
    expectRefusal(await read(endpoint.id), 404, "NOT_FOUND");
    for (const id of ["ep_000000000000000000000000", "abc", "whsec_x"]) {
      expectRefusal(await read(id), 404, "NOT_FOUND");
    }
  });
});
