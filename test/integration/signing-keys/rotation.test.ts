/** The life of signing keys in a real database, with a test clock and the operators' API. */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { createLogger } from "#observability/logger.ts";
import { ensureSigningKey, KeyStore } from "#tokens/signing-keys/key-store.ts";
import { advanceRotation, rotateSigningKeys, type SigningKeyServices } from "#tokens/signing-keys/rotate.ts";
import { type SigningKeyState, statesAt } from "#tokens/signing-keys/lifecycle.ts";
import { revokeSigningKey } from "#tokens/signing-keys/revoke.ts";
import { testKeyring } from "#test/support/keyring.ts";
import { createTestDatabase, type TestDatabase } from "#test/support/services.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const START = 1_763_650_000_000;
const ACTOR = "system:test";
const AUTHOR = { actor: ACTOR } as const;
const log = createLogger({ level: "silent" });
const keyring = testKeyring();

let nowMs: number;
const clock = { now: () => nowMs };
let database: TestDatabase;
let services: SigningKeyServices;
let issuer: Pool;
let store: KeyStore;
let sql: Client;

beforeEach(async () => {
  nowMs = START;
  database = await createTestDatabase();
  const pool = createPool({ url: database.url, role: "signet_operator", max: 10, log });
  issuer = createPool({ url: database.url, role: "signet_issuer", max: 2, log });
  services = {
    pool,
    keyring,
    clock,
    timers: machineTimers,
    randomBytes,
    algs: { access: "ES256", set: "ES256" },
  };
  sql = new Client({ connectionString: database.adminUrl });
  await sql.connect();
  await ensureSigningKey({ db: pool, keyring, clock, purpose: "access", alg: "ES256" });
  store = await KeyStore.open({ db: issuer, keyring, purpose: "access", clock, timers: machineTimers, log });
});
afterEach(async () => {
  await store.close();
  await Promise.all([services.pool.end(), issuer.end(), sql.end()]);
  await database.drop();
});

interface Row {
  readonly kid: string;
  readonly state: string;
  readonly private_key: string;
}

async function rows(): Promise<Row[]> {
  return (
    await sql.query<Row>("SELECT kid, state, private_key FROM signing_keys ORDER BY created_at, activated_at")
  ).rows;
}

async function entries(): Promise<string[]> {
  const { rows } = await sql.query<{ entry: string }>(
    "SELECT type || ' ' || coalesce(convert_from(entry, 'UTF8')::jsonb ->> 'target', '') AS entry FROM clog ORDER BY idx",
  );
  return rows.map(({ entry }) => entry);
}

const published = (): string[] =>
  store
    .publicKeys()
    .map(({ kid }) => kid)
    .sort();
const advance = async () => await rotateSigningKeys(services, "access", AUTHOR);

test("a key is created a day ahead, published, signs for 30 days, stays for an hour and loses its private half", async () => {
  const first = store.signingKey().kid;
  nowMs = START + 29 * DAY - 1;
  expect((await advance()).created).toEqual([]);
  nowMs = START + 29 * DAY;
  const {
    created: [second = ""],
  } = await advance();
  await store.refresh();
  expect([store.signingKey().kid, published()]).toEqual([first, [first, second].sort()]);

  nowMs = START + 30 * DAY;
  expect(await advance()).toEqual({ created: [], activated: [second], retired: [first], gone: [] });
  await store.refresh();
  expect([store.signingKey().kid, published()]).toEqual([second, [first, second].sort()]);
  expect(await store.verificationKey(first)).toMatchObject({ alg: "ES256" });

  nowMs += HOUR;
  expect((await advance()).gone).toEqual([first]);
  await store.refresh();
  expect(published()).toEqual([second]);
  expect(await store.verificationKey(first)).toBeUndefined();
  expect((await rows()).map(({ state, private_key: key }) => [state, key === ""])).toEqual([
    ["GONE", true],
    ["CURRENT", false],
  ]);
  expect(await entries()).toEqual([
    `key.created ${second}`,
    `key.retired ${first}`,
    `key.activated ${second}`,
    `key.gone ${first}`,
  ]);
});

test("a stopped schedule delays nothing begun: the next key signs and the last one expires by time alone", async () => {
  const first = store.signingKey().kid;
  nowMs = START + 29 * DAY;
  const {
    created: [second = ""],
  } = await advance();
  await store.refresh();
  // No schedule runs and no key is loaded from here on.
  nowMs = START + 30 * DAY - 1;
  expect(store.signingKey().kid).toBe(first);
  nowMs = START + 30 * DAY + 1_000;
  expect([store.signingKey().kid, published()]).toEqual([second, [first, second].sort()]);
  nowMs = START + 30 * DAY + HOUR + 1_000;
  expect([store.signingKey().kid, published()]).toEqual([second, [second]]);
});

test("a schedule that resumes after months continues, including an hour of publication", async () => {
  const first = store.signingKey().kid;
  nowMs = START + 100 * DAY;
  const {
    created: [second = ""],
  } = await advance();
  await store.refresh();
  expect(store.signingKey().kid).toBe(first);
  nowMs += HOUR - 1;
  expect(await advance()).toEqual({ created: [], activated: [], retired: [], gone: [] });
  nowMs += 1;
  expect(await advance()).toMatchObject({ activated: [second], retired: [first] });
});

test("ten simultaneous schedules and operators create one key", async () => {
  nowMs = START + 29 * DAY;
  await Promise.all([
    ...Array.from({ length: 5 }, advance),
    ...Array.from({ length: 5 }, async () => await advanceRotation(services, "access", AUTHOR)),
  ]);
  expect((await rows()).map(({ state }) => state)).toEqual(["CURRENT", "NEXT"]);
});

test("an operator's rotation takes an hour, and a repeated request does not delay it", async () => {
  const first = store.signingKey().kid;
  const { kid, activated_at: at } = await advanceRotation(services, "access", AUTHOR);
  expect(at.getTime()).toBe(START + HOUR);
  nowMs += 10 * 60_000;
  expect(await advanceRotation(services, "access", AUTHOR)).toMatchObject({ kid, activated_at: at });
  await store.refresh();
  nowMs = START + HOUR - 1;
  expect(store.signingKey().kid).toBe(first);
  nowMs = START + HOUR + 1_000;
  expect(store.signingKey().kid).toBe(kid);
});

test("an operator can bring forward a scheduled key", async () => {
  nowMs = START + 29 * DAY;
  const {
    created: [second = ""],
  } = await advance();
  nowMs += 2 * HOUR;
  expect(await advanceRotation(services, "access", AUTHOR)).toMatchObject({ kid: second });
  expect(await advance()).toMatchObject({ activated: [second] });
  expect((await entries()).filter((entry) => entry.startsWith("key.hastened"))).toEqual([
    `key.hastened ${second}`,
  ]);
});

describe("revoking", () => {
  const revoke = async (kid: string) =>
    await revokeSigningKey(services, { kid, reason: "leaked", actor: ACTOR, requestId: "req_x" });

  test("the signing key replaces it at once", async () => {
    const first = store.signingKey().kid;
    const { key, revocation } = await revoke(first);
    expect(key).toMatchObject({ state: "GONE", private_key: "", revocation_reason: "leaked" });
    expect(revocation.sequence).toBe(1);
    await store.refresh();
    const second = store.signingKey().kid;
    expect(second).not.toBe(first);
    expect(published()).toEqual([second]);
    expect(await store.verificationKey(first)).toBe("revoked");
    expect(await entries()).toEqual([
      `key.created ${second}`,
      `key.activated ${second}`,
      `key.revoked ${first}`,
    ]);
  });

  test("the signing key does not wait for a key service, and the next rotation replaces it", async () => {
    const first = store.signingKey().kid;
    const sealing = vi.spyOn(keyring, "sealWithKek").mockReturnValue(new Promise<never>(() => undefined));
    const { revocation } = await revoke(first);
    expect(revocation.sequence).toBe(1);
    expect(await entries()).toEqual([`key.revoked ${first}`]);
    sealing.mockRestore();
    const { created } = await rotateSigningKeys(services, "access", AUTHOR);
    await store.refresh();
    expect([store.signingKey().kid]).toEqual(created);
  });

  test("the signing key makes the next one begin early", async () => {
    const first = store.signingKey().kid;
    const { kid: second } = await advanceRotation(services, "access", AUTHOR);
    await revoke(first);
    await store.refresh();
    expect([store.signingKey().kid, published()]).toEqual([second, [second]]);
  });

  test("a key that does not sign does not affect the others", async () => {
    const first = store.signingKey().kid;
    const { kid: second } = await advanceRotation(services, "access", AUTHOR);
    await revoke(second);
    await store.refresh();
    expect([store.signingKey().kid, published()]).toEqual([first, [first]]);
  });

  test("is idempotent, and an unknown key is a 404", async () => {
    const first = store.signingKey().kid;
    const { revocation } = await revoke(first);
    expect((await revoke(first)).revocation).toEqual(revocation);
    expect(await entries()).toHaveLength(3);
    await expect(revoke("x".repeat(43))).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});

test("a new algorithm begins with the next key, and both keys are published meanwhile", async () => {
  services = { ...services, algs: { ...services.algs, access: "RS256" } };
  await advanceRotation(services, "access", AUTHOR);
  await store.refresh();
  expect(store.publicKeys().map(({ alg }) => alg)).toEqual(["ES256", "RS256"]);
  expect(store.signingKey().alg).toBe("ES256");
  nowMs += HOUR + 1_000;
  expect(store.signingKey().alg).toBe("RS256");
});

describe("the keys of security events", () => {
  let setStore: KeyStore;
  let first: string;

  beforeEach(async () => {
    // Later than the key of access tokens, as after an upgrade.
    nowMs += DAY;
    await ensureSigningKey({ db: services.pool, keyring, clock, purpose: "set", alg: "RS256" });
    setStore = await KeyStore.open({
      db: issuer,
      keyring,
      purpose: "set",
      clock,
      timers: machineTimers,
      log,
    });
    first = setStore.signingKey().kid;
  });
  afterEach(async () => await setStore.close());

  /** The states that version 0.3.0 finds: it reads every row, and knows no purpose. */
  async function statesOf030(atMs: number): Promise<Readonly<Record<string, SigningKeyState | undefined>>> {
    const { rows: all } = await sql.query<Readonly<Record<"activated_at" | "retired_at", Date>> & Row>(
      "SELECT kid, state, activated_at, retired_at FROM signing_keys WHERE state <> 'GONE'",
    );
    const keys = all.map(({ kid, activated_at: activatedAt, retired_at: retiredAt }) => ({
      kid,
      activatedAt: activatedAt.getTime(),
      retiredAt: (retiredAt as Date | null)?.getTime() ?? null,
      revokedAt: null,
    }));
    return Object.fromEntries(statesAt(keys, atMs));
  }

  test("have a life of their own, beside that of access tokens", async () => {
    const access = store.signingKey();
    expect([access.alg, setStore.signingKey().alg]).toEqual(["ES256", "RS256"]);
    nowMs += 1_000;
    const { kid: second } = await advanceRotation(services, "set", AUTHOR);
    nowMs += HOUR;
    const due = await rotateSigningKeys(services, "set", AUTHOR);
    expect(due).toEqual({ created: [], activated: [second], retired: [first], gone: [] });
    await setStore.refresh();
    expect([setStore.signingKey().kid, setStore.signingKey().alg]).toEqual([second, "ES256"]);
    expect(setStore.publicKeys().map(({ kid }) => kid)).toEqual([first, second]);
    nowMs += HOUR;
    expect((await rotateSigningKeys(services, "set", AUTHOR)).gone).toEqual([first]);
    expect((await rows()).map(({ private_key: key }) => key === "")).toEqual([false, true, false]);
    await store.refresh();
    expect([store.signingKey().kid, published()]).toEqual([access.kid, [access.kid]]);
    expect(await store.verificationKey(second)).toBeUndefined();
  });

  test("are published by version 0.3.0, which never signs with them", async () => {
    const access = store.signingKey().kid;
    const { kid: second } = await advanceRotation(services, "set", AUTHOR);
    for (const atMs of [nowMs, nowMs + 2 * HOUR, nowMs + 365 * DAY]) {
      expect(await statesOf030(atMs)).toEqual({
        [access]: "CURRENT",
        [first]: "PREVIOUS",
        [second]: "PREVIOUS",
      });
    }
  });

  test("end if version 0.3.0 revokes them, and the next rotation makes another", async () => {
    await sql.query(
      `UPDATE signing_keys SET state = 'GONE', private_key = '', revoked_at = now(), revocation_reason = 'leaked',
          retired_at = coalesce(retired_at, now()) WHERE kid = $1`,
      [first],
    );
    const { created } = await rotateSigningKeys(services, "set", AUTHOR);
    await setStore.refresh();
    expect(created).toEqual([setStore.signingKey().kid]);
    expect(setStore.publicKeys().map(({ kid }) => kid)).toEqual(created);
  });

  test("are replaced at once when revoked", async () => {
    await revokeSigningKey(services, { kid: first, reason: "leaked", actor: ACTOR, requestId: "req_x" });
    await setStore.refresh();
    expect(setStore.signingKey().kid).not.toBe(first);
    expect(setStore.publicKeys()).toHaveLength(1);
    expect(store.signingKey().kid).not.toBe(setStore.signingKey().kid);
  });

  test("are all that a worker's role sees, and nothing that an edge's role or a hub's text has", async () => {
    const pool = async (role: "signet_worker" | "signet_edge", text: string): Promise<unknown[]> => {
      const own = createPool({ url: database.url, role, max: 1, log });
      try {
        return (await own.query(text)).rows;
      } finally {
        await own.end();
      }
    };
    const access = store.signingKey().kid;
    const kids = "SELECT kid FROM signing_keys";
    expect(await pool("signet_worker", kids)).toEqual([{ kid: first }]);
    expect(await pool("signet_edge", kids)).toEqual([{ kid: access }]);
    const proof = await pool("signet_edge", `SELECT keys FROM prove_revocations('${"x".repeat(32)}', NULL)`);
    expect(JSON.stringify(proof)).toContain(access);
    expect(JSON.stringify(proof)).not.toContain(first);
  });
});
