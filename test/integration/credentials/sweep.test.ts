/** The sweep records what the times already imply; nothing waits for it. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { createPool } from "#database/pool.ts";
import { publishRevocationNotices } from "#webhooks/revocation-notices.ts";
import { sweepRotation, type Swept } from "#tokens/credentials/rotation-sweep.ts";
import { createLogger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { eventually } from "#test/support/eventually.ts";
import { testKeyring } from "#test/support/keyring.ts";
import {
  CERTIFICATE,
  DAY_MS,
  type TestCredential,
  type TokenService,
  useTokenService,
} from "#test/support/token-service.ts";

const service = useTokenService();
const keyring = testKeyring();
let tokens: TokenService;
const lines: string[] = [];
const log = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });

async function sweep(): Promise<Swept> {
  const { pools, rules, clock } = tokens;
  return await sweepRotation({ clock, randomBytes, pool: pools.rotator, rules, log });
}

beforeEach(async () => {
  tokens = service.current;
  // Process what other tests left due.
  await sweep();
});

/** Returns the compliance log's entries about a credential, with their details. */
async function entries(client: TestCredential): Promise<[string, unknown][]> {
  const { rows } = await tokens.sql.query<{ entry: { type: string; target: string; details: unknown } }>(
    "SELECT convert_from(entry, 'UTF8')::jsonb AS entry FROM clog ORDER BY idx",
  );
  return rows
    .filter(({ entry }) => entry.target === client.credentialId)
    .map(({ entry }) => [entry.type, entry.details]);
}

async function acknowledged(bound: boolean): Promise<TestCredential & { readonly next: string }> {
  const client = await tokens.createCredential(bound);
  const certificate = bound ? CERTIFICATE : undefined;
  tokens.advance(30 * DAY_MS);
  const { credential_rotation: rotation } = await tokens.request(client, client.secret, certificate);
  const next = rotation?.client_secret ?? "";
  await tokens.request(client, next, certificate);
  return { ...client, next };
}

test("each due rotation is logged once, also for a client that never calls", async () => {
  const client = await tokens.createCredential(false);
  tokens.advance(30 * DAY_MS);
  await sweep();
  await sweep();
  expect(await entries(client)).toEqual([["credential.rotation_due", { version: 1 }]]);
});

test("a rotation that is never taken up raises alerts on days 7, 21, 38 and 44, and then every 30 days", async () => {
  const client = await tokens.createCredential(true);
  const alertCount = (): number => lines.filter((line) => line.includes(client.credentialId)).length;
  const alerts: number[] = [];
  tokens.advance(30 * DAY_MS);
  for (let day = 0; day < 140; day += 1) {
    const before = alertCount();
    await sweep();
    alerts.push(...(alertCount() > before ? [day] : []));
    tokens.advance(DAY_MS);
  }
  expect(alerts).toEqual([7, 21, 38, 44, 74, 104, 134]);
  expect(alertCount()).toBe(alerts.length);
  expect(
    (await metrics.overdueRotations.get()).values.find(({ labels }) => labels["kind"] === "credential")
      ?.value,
  ).toBeGreaterThanOrEqual(1);
  const logged = (await entries(client)).filter(([type]) => type === "credential.rotation_overdue");
  expect(logged.map(([, details]) => (details as { days: number }).days)).toEqual(alerts);
});

test("an unused secret is retired, and its successor is kept for a rescue for 180 days", async () => {
  const client = await acknowledged(true);
  tokens.advance(DAY_MS);
  expect(await sweep()).toMatchObject({ retired: 1 });
  expect(await tokens.versions(client)).toMatchObject([
    { state: "RETIRED", retired_reason: "quiet" },
    { state: "ACTIVE", wrapped: expect.any(String) as string },
  ]);
  tokens.advance(180 * DAY_MS);
  expect(await sweep()).toMatchObject({ rescues_ended: 1 });
  expect((await tokens.versions(client))[1]?.wrapped).toBeNull();
  expect(await tokens.outcome(client, client.secret, CERTIFICATE)).toBe("INVALID_CLIENT");
});

test("without a registered certificate the successor is erased when the previous secret ends", async () => {
  const client = await acknowledged(false);
  tokens.advance(DAY_MS);
  await sweep();
  expect(await tokens.versions(client)).toMatchObject([{ state: "RETIRED" }, { wrapped: null }]);
  expect(await tokens.outcome(client, client.next)).toBe("token");
});

test("an unrotated secret ends on day 75, unless a certificate is registered", async () => {
  const bare = await tokens.createCredential(false);
  const bound = await tokens.createCredential(true);
  tokens.advance(75 * DAY_MS);
  await sweep();
  expect(await tokens.versions(bare)).toMatchObject([{ state: "RETIRED", retired_reason: "age" }]);
  expect(await tokens.versions(bound)).toMatchObject([{ state: "ACTIVE" }]);
  expect(await tokens.outcome(bound, bound.secret, CERTIFICATE)).toBe(2);
});

test("the number of times a successor was returned is logged at most once a day, never its secret", async () => {
  const client = await tokens.createCredential(false);
  tokens.advance(30 * DAY_MS);
  const { credential_rotation: rotation } = await tokens.request(client);
  await tokens.request(client);
  await eventually(async () => (await tokens.versions(client))[1]?.delivered_count === 2, "the count");
  await sweep();
  await tokens.request(client);
  await eventually(async () => (await tokens.versions(client))[1]?.delivered_count === 3, "the count");
  await sweep();
  tokens.advance(DAY_MS);
  await sweep();
  const delivered = (await entries(client)).filter(([type]) => type === "credential.successor_delivered");
  expect(delivered.map(([, details]) => details)).toEqual([
    { version: 2, count: 2 },
    { version: 2, count: 3 },
  ]);
  expect(JSON.stringify(await entries(client))).not.toContain(rotation?.client_secret);
});

test("a replaced credential ends with its overlap, and nothing is revoked", async () => {
  const client = await tokens.createCredential(false);
  const successor = await tokens.createCredential(false);
  await tokens.sql.query("UPDATE credentials SET ends_at = $2, replaced_by = $3 WHERE id = $1", [
    client.credentialId,
    new Date(tokens.clock.now() + DAY_MS),
    successor.credentialId,
  ]);
  const { rows: tenants } = await tokens.sql.query<{ id: string }>("SELECT id FROM tenants");
  for (const { id } of tenants) {
    const dataKey = await keyring.newTenantDataKey(id);
    await tokens.sql.query("UPDATE tenants SET data_key = $2 WHERE id = $1", [id, dataKey]);
  }
  expect(await sweep()).toMatchObject({ ended: 0 });
  expect(await tokens.outcome(client)).toBe("token");
  tokens.advance(DAY_MS);
  // It ends on time, with or without the sweep.
  expect(await tokens.outcome(client)).toBe("INVALID_CLIENT");
  tokens.advance(60_000);
  expect(await sweep()).toMatchObject({ ended: 1 });
  expect(await sweep()).toMatchObject({ ended: 0 });
  expect(await tokens.outcome(client)).toBe("INVALID_CLIENT");
  const { rows: credentials } = await tokens.sql.query(
    "SELECT state, revoked_at = ends_at AS at_its_end FROM credentials WHERE id = $1",
    [client.credentialId],
  );
  expect(credentials).toEqual([{ state: "REVOKED", at_its_end: true }]);
  expect((await tokens.sql.query("SELECT FROM revocations")).rows).toEqual([]);
  expect((await entries(client)).at(-1)).toEqual(["credential.ended", {}]);
  const pool = createPool({ url: tokens.database.url, role: "signet_operator", max: 2, log });
  try {
    const sources = { keyring, clock: tokens.clock, randomBytes, deadLetterMs: DAY_MS };
    await publishRevocationNotices({ ...sources, pool, onlyIfTaken: false });
    await publishRevocationNotices({ ...sources, pool, onlyIfTaken: false });
  } finally {
    await pool.end();
  }
  expect((await tokens.sql.query("SELECT type FROM events")).rows).toEqual([{ type: "credential.ended" }]);
});

describe("for any times", () => {
  test("the sweep retires exactly the secrets that the token endpoint rejects without a certificate", async () => {
    const at = fc.option(fc.integer({ min: -200, max: 10 }));
    const versions = fc.array(
      fc.record({
        state: fc.constantFrom("PENDING", "ACTIVE", "RETIRING"),
        retireBy: at,
        supersededAt: at,
        lastUsedAt: at,
      }),
      { minLength: 1, maxLength: 20 },
    );
    await fc.assert(
      fc.asyncProperty(versions, async (rows) => {
        const before = tokens.clock.now();
        const hours = (value: number | null): Date | null =>
          value === null ? null : new Date(before + value * 3_600_000);
        const made = [];
        for (const row of rows) {
          const client = await tokens.createCredential(false);
          await tokens.sql.query(
            `UPDATE secret_versions SET state = 'ACTIVE', due_at = NULL, issued_at = $2, retire_by = $3,
                superseded_at = $4, last_used_at = $5 WHERE credential_id = $1`,
            [
              client.credentialId,
              hours(-300),
              hours(row.retireBy),
              hours(row.supersededAt),
              hours(row.lastUsedAt),
            ],
          );
          await tokens.sql.query(`ALTER TABLE secret_versions DISABLE TRIGGER secret_versions_one_way`);
          await tokens.sql.query("UPDATE secret_versions SET state = $2 WHERE credential_id = $1", [
            client.credentialId,
            row.state,
          ]);
          await tokens.sql.query(`ALTER TABLE secret_versions ENABLE TRIGGER secret_versions_one_way`);
          made.push(client);
        }
        await sweep();
        const swept = await Promise.all(
          made.map(async (client) => (await tokens.versions(client))[0]?.state === "RETIRED"),
        );
        const refused = await Promise.all(
          made.map(async (client) => (await tokens.outcome(client)) === "INVALID_CLIENT"),
        );
        expect(swept).toEqual(refused);
      }),
      { numRuns: 15 },
    );
  });
});
