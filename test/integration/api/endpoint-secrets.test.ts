/** Rotation of an endpoint's secret as its tenant sees it, and which secrets sign in each phase. */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createPool } from "#database/pool.ts";
import { sweepSecrets } from "#webhooks/endpoints/secret-sweep.ts";
import { createLogger } from "#observability/logger.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { verify } from "#lib/receiver/verify.ts";
import { useTestApi } from "#test/support/api.ts";
import {
  accepts,
  later,
  makeRotatingEndpoint,
  rotate,
  statesOf,
  storedSecrets,
} from "#test/support/rotating-endpoint.ts";
import { keyringOf, signDeliveryNow, type SignedDelivery } from "#test/support/signed-delivery.ts";
import { anInstant, expectRefusal, rows } from "#test/support/tenant.ts";

const api = useTestApi();
const HOUR_MS = 3_600_000;
const fingerprintOf = (secret: string): string =>
  createHash("sha256").update(secret).digest("hex").slice(0, 8);

/** Checks whether the secret made the specification's own signature header, ignoring the others. */
function firstIs(secret: string, { body, headers, atMs }: SignedDelivery): boolean {
  const only = ["X-Service-Signature-256", "X-Service-Timestamp"];
  const plain = Object.fromEntries(Object.entries(headers).filter(([name]) => only.includes(name)));
  try {
    verify({ rawBody: body, headers: plain, secrets: [secret], now: atMs });
    return true;
  } catch {
    return false;
  }
}

async function sweep(): Promise<number> {
  const log = createLogger({ level: "error" });
  const pool = createPool({ url: api.database.url, role: "signet_worker", max: 2, log });
  try {
    return await sweepSecrets({ pool, keyring: keyringOf(api), clock: api.clock, randomBytes, log });
  } finally {
    await pool.end();
  }
}

describe("a rotation", () => {
  test("needs no body; both secrets sign for a day by default", async () => {
    const { tenant, path } = await makeRotatingEndpoint(api);
    const { status, body } = await tenant.post(`${path}/rotate`);
    expect({ status, state: body["state"] }).toEqual({ status: 200, state: "NEXT" });
    const overlapMs = Date.parse(String(body["current_at"])) - Date.parse(String(body["created_at"]));
    expect(overlapMs).toBe(86_400_000);
  });

  test("shows the next secret once; the list of versions has fingerprints but no values", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    const { tenant, path, id } = endpoint;
    const answer = await tenant.post(`${path}/rotate`, { overlap_seconds: 3_600 });
    expect(answer).toMatchObject({
      status: 200,
      body: {
        endpoint_id: id,
        version: 2,
        state: "NEXT",
        secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/) as string,
        created_at: anInstant(),
        current_at: anInstant(),
      },
    });
    expect(answer.headers.get("cache-control")).toBe("no-store");
    const next = String(answer.body["secret"]);
    const listed = await tenant.get(path);
    expect(listed.body).toEqual({
      endpoint_id: id,
      signing: "hmac-sha256",
      rotation_days: null,
      recipient: null,
      data: [
        {
          version: 2,
          state: "NEXT",
          fingerprint: fingerprintOf(next),
          created_at: answer.body["created_at"],
          current_at: answer.body["current_at"],
          signs_until: null,
          retired_at: null,
          public_key: null,
          encrypted_secret: null,
        },
        {
          version: 1,
          state: "CURRENT",
          fingerprint: fingerprintOf(endpoint.secret),
          created_at: anInstant(),
          current_at: anInstant(),
          signs_until: anInstant(),
          retired_at: null,
          public_key: null,
          encrypted_secret: null,
        },
      ],
    });
    expect(listed.text).not.toContain("whsec_");
    expect(api.log.join("")).not.toContain(next);
  });

  test("signs with the right secrets in every phase, without a background job", async () => {
    let endpoint = await makeRotatingEndpoint(api);
    const { id, secret: old } = endpoint;
    const next = await rotate(endpoint, { overlap_seconds: 3_600 });
    const phases = [
      { wait: 0, first: old, good: [true, true], states: ["NEXT", "CURRENT"] },
      { wait: HOUR_MS - 60_000, first: old, good: [true, true], states: ["NEXT", "CURRENT"] },
      { wait: 120_000, first: next, good: [true, true], states: ["CURRENT", "PREVIOUS"] },
      { wait: HOUR_MS - 120_000, first: next, good: [true, true], states: ["CURRENT", "PREVIOUS"] },
      { wait: 120_000, first: next, good: [false, true], states: ["CURRENT", "RETIRED"] },
    ];
    for (const { wait, first, good, states } of phases) {
      endpoint = await later(api, endpoint, wait);
      const signed = await signDeliveryNow(api, endpoint.tenant, id);
      expect([accepts(old, signed), accepts(next, signed)]).toEqual(good);
      expect(firstIs(first, signed)).toBe(true);
      expect((await statesOf(endpoint)).map((row) => (row as string[])[1])).toEqual(states);
    }
    // The sweep only erases secrets that have ended, and logs it.
    expect(await storedSecrets(api, id)).not.toContain("");
    expect(await sweep()).toBeGreaterThanOrEqual(1);
    expect(await sweep()).toBe(0);
    expect(await storedSecrets(api, id)).toEqual(["", expect.stringMatching(/^v1\./)]);
    const swept = await signDeliveryNow(api, endpoint.tenant, id);
    expect([accepts(old, swept), accepts(next, swept)]).toEqual([false, true]);
    expect(
      rows(await endpoint.tenant.get("/v1/compliance/entries?type=endpoint.secret_activated")),
    ).toHaveLength(1);
  });

  test("can be brought forward by an activation; the previous secret signs for the same overlap", async () => {
    let endpoint = await makeRotatingEndpoint(api);
    const { id, secret: old } = endpoint;
    const next = await rotate(endpoint, { overlap_seconds: 3_600 });
    const answer = await endpoint.tenant.post(`${endpoint.path}/activate`);
    expect(rows(answer)).toMatchObject([
      { version: 2, state: "CURRENT" },
      { version: 1, state: "PREVIOUS", signs_until: anInstant() },
    ]);
    const swapped = await signDeliveryNow(api, endpoint.tenant, id);
    expect(firstIs(next, swapped)).toBe(true);
    expect(accepts(old, swapped)).toBe(true);
    expectRefusal(await endpoint.tenant.post(`${endpoint.path}/activate`), 409, "INVALID_STATE");
    expectRefusal(await endpoint.tenant.post(`${endpoint.path}/rotate`, {}), 409, "INVALID_STATE");
    endpoint = await later(api, endpoint, HOUR_MS + 1_000);
    expect(accepts(old, await signDeliveryNow(api, endpoint.tenant, id))).toBe(false);
    expect(await rotate(endpoint)).not.toBe(next);
    expect(await statesOf(endpoint)).toEqual([
      [3, "NEXT"],
      [2, "CURRENT"],
      [1, "RETIRED"],
    ]);
  });

  test("lasts a day on each side by default", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    await rotate(endpoint);
    const [next, current] = rows(await endpoint.tenant.get(endpoint.path));
    const ms = (value: unknown): number => Date.parse(String(value));
    expect(ms(next?.["current_at"]) - ms(next?.["created_at"])).toBe(24 * HOUR_MS);
    expect(ms(current?.["signs_until"]) - ms(next?.["current_at"])).toBe(24 * HOUR_MS);
  });

  test("is in the compliance log, without a secret", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    const next = await rotate(endpoint);
    await endpoint.tenant.post(`${endpoint.path}/activate`);
    await rotate(endpoint, { overlap_seconds: 0 });
    const log = await endpoint.tenant.get("/v1/compliance/entries");
    const found = rows(log).filter(({ type }) => String(type).startsWith("endpoint.secret"));
    expect(found.map(({ type }) => type)).toEqual([
      "endpoint.secret_rotated",
      "endpoint.secret_activated",
      "endpoint.secret_rotated",
    ]);
    expect(log.text).not.toContain(next);
    expect(log.text).toContain('"emergency":true');
  });
});

describe("an overlap of 0", () => {
  test("replaces every secret immediately, even during a rotation, and erases the old ones", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    const { id, secret: old } = endpoint;
    const next = await rotate(endpoint);
    const fresh = await rotate(endpoint, { overlap_seconds: 0 });
    const signed = await signDeliveryNow(api, endpoint.tenant, id);
    expect([old, next, fresh].map((secret) => accepts(secret, signed))).toEqual([false, false, true]);
    expect(signed.headers).not.toHaveProperty("X-Service-Signature-256-Alt");
    expect(await storedSecrets(api, id)).toEqual(["", "", expect.stringMatching(/^v1\./)]);
    expect(await statesOf(endpoint)).toEqual([
      [3, "CURRENT"],
      [2, "RETIRED"],
      [1, "RETIRED"],
    ]);
  });
});

describe("a secret supplied by the tenant", () => {
  test.each([24, 32, 64])("with %i bytes is accepted and signs", async (size) => {
    const endpoint = await makeRotatingEndpoint(api);
    const own = `whsec_${randomBytes(size).toString("base64")}`;
    expect(await rotate(endpoint, { secret: own, overlap_seconds: 0 })).toBe(own);
    expect(accepts(own, await signDeliveryNow(api, endpoint.tenant, endpoint.id))).toBe(true);
  });

  test.each([
    ["too short", `whsec_${Buffer.alloc(23, 1).toString("base64")}`],
    ["too long", `whsec_${Buffer.alloc(65, 1).toString("base64")}`],
    ["missing its prefix", Buffer.alloc(32, 1).toString("base64")],
    ["in another encoding", `whsec_${Buffer.alloc(32, 255).toString("base64url")}`],
  ])("is rejected if it is %s", async (_name, secret) => {
    const { tenant, path } = await makeRotatingEndpoint(api);
    const answer = await tenant.post(`${path}/rotate`, { secret });
    expectRefusal(answer, 422, "VALIDATION_FAILED");
    expect(answer.body["errors"]).toMatchObject([{ pointer: "/secret" }]);
    expect(answer.text).not.toContain(secret);
  });

  test("is rejected if the endpoint has or had it", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    const own = generateSecret(randomBytes);
    await rotate(endpoint, { secret: own, overlap_seconds: 0 });
    for (const secret of [own, endpoint.secret]) {
      expectRefusal(
        await endpoint.tenant.post(`${endpoint.path}/rotate`, { secret }),
        422,
        "VALIDATION_FAILED",
      );
    }
  });
});

describe("a repeated request", () => {
  test("with the same Idempotency-Key gets the same secret and rotates once", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    const key = { "idempotency-key": randomUUID() };
    const [first, second] = [
      await endpoint.tenant.post(`${endpoint.path}/rotate`, {}, key),
      await endpoint.tenant.post(`${endpoint.path}/rotate`, {}, key),
    ];
    expect(second.body).toEqual(first.body);
    expect(second.headers.get("idempotent-replayed")).toBe("true");
    expect(await statesOf(endpoint)).toEqual([
      [2, "NEXT"],
      [1, "CURRENT"],
    ]);
    const other = await endpoint.tenant.post(`${endpoint.path}/rotate`, { overlap_seconds: 0 }, key);
    expectRefusal(other, 409, "IDEMPOTENCY_KEY_REUSED");
  });
});

describe("a tenant on hold", () => {
  test("keeps its secrets unchanged; after the release, a rotation continues where it stopped", async () => {
    let endpoint = await makeRotatingEndpoint(api);
    const { tenant, path, id, secret: old } = endpoint;
    const next = await rotate(endpoint, { overlap_seconds: 3_600 });
    await api.admin("POST", `/tenants/${tenant.tenantId}/hold`, {});
    for (const body of [{}, { overlap_seconds: 0 }]) {
      expectRefusal(await tenant.post(`${path}/rotate`, body), 409, "INVALID_STATE");
    }
    expectRefusal(await tenant.post(`${path}/activate`), 409, "INVALID_STATE");
    endpoint = await later(api, endpoint, 5 * HOUR_MS);
    expect(await sweep()).toBe(0);
    const frozen = await signDeliveryNow(api, endpoint.tenant, id);
    expect([firstIs(old, frozen), accepts(next, frozen)]).toEqual([true, true]);
    expect(await statesOf(endpoint)).toEqual([
      [2, "NEXT"],
      [1, "CURRENT"],
    ]);
    await api.admin("POST", `/tenants/${tenant.tenantId}/release`, {});
    endpoint = await later(api, endpoint, HOUR_MS / 2);
    expect(firstIs(old, await signDeliveryNow(api, endpoint.tenant, id))).toBe(true);
    endpoint = await later(api, endpoint, HOUR_MS);
    const released = await signDeliveryNow(api, endpoint.tenant, id);
    expect([firstIs(next, released), accepts(old, released)]).toEqual([true, true]);
    endpoint = await later(api, endpoint, HOUR_MS);
    expect(accepts(old, await signDeliveryNow(api, endpoint.tenant, id))).toBe(false);
  });
});
