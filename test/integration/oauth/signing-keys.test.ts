import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterEach, beforeEach, expect, inject, test } from "vitest";
import { loadConfig } from "#config/config.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { insertFirstKey } from "#database/repositories/tokens/signing-keys.ts";
import { createLogger } from "#observability/logger.ts";
import { ensureSigningKey, KeyStore } from "#tokens/signing-keys/key-store.ts";
import { startApi } from "#processes/api.ts";
import { generateSigningKey } from "#tokens/signing-keys/signing-key.ts";
import { eventually } from "#test/support/eventually.ts";
import { testKeyring } from "#test/support/keyring.ts";
import { createTestDatabase, type TestDatabase } from "#test/support/services.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const log = createLogger({ level: "silent" });
const kek = randomBytes(32);
const keyring = testKeyring(kek);
let nowMs = 1_763_650_000_000;
const clock = { now: () => nowMs };

let database: TestDatabase;
let pools: Pool[];
let stores: KeyStore[];

beforeEach(async () => {
  database = await createTestDatabase();
  pools = [];
  stores = [];
});
afterEach(async () => {
  await Promise.all(stores.map(async (store) => await store.close()));
  await Promise.all(pools.map(async (pool) => await pool.end()));
  await database.drop();
});

function pool(role: "signet_operator" | "signet_issuer"): Pool {
  const made = createPool({ url: database.url, role, max: 4, log });
  pools.push(made);
  return made;
}

async function open(ring = keyring): Promise<KeyStore> {
  const store = await KeyStore.open({
    db: pool("signet_issuer"),
    keyring: ring,
    purpose: "access",
    clock,
    timers: machineTimers,
    log,
  });
  stores.push(store);
  return store;
}

async function keysInDatabase(): Promise<{ kid: string; state: string; private_key: string }[]> {
  const client = new Client({ connectionString: database.adminUrl });
  await client.connect();
  try {
    return (await client.query("SELECT kid, state, private_key FROM signing_keys")).rows;
  } finally {
    await client.end();
  }
}

test("simultaneously started processes agree on one signing key", async () => {
  const processes = Array.from({ length: 8 }, () => pool("signet_operator"));
  await Promise.all(
    processes.map(
      async (db) => await ensureSigningKey({ db, keyring, clock, purpose: "access", alg: "ES256" }),
    ),
  );
  const keys = await keysInDatabase();
  expect(keys).toHaveLength(1);
  const opened = await Promise.all([open(), open()]);
  expect(opened.map((store) => store.signingKey().kid)).toEqual([keys[0]?.kid, keys[0]?.kid]);
});

function apiConfig() {
  const environment = {
    SIGNET_ENV: "development",
    SIGNET_API_LISTEN: "127.0.0.1:0",
    SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
    SIGNET_KEK: kek.toString("base64"),
    SIGNET_PEPPER: randomBytes(32).toString("base64"),
    SIGNET_OPERATOR_TOKEN: randomBytes(32).toString("hex"),
  };
  return {
    ...loadConfig(environment),
    databaseUrl: database.url,
    temporalAddress: inject("temporalAddress"),
  };
}

test("two api processes starting simultaneously on an empty database publish the same keys, one of each purpose", async () => {
  const config = apiConfig();
  const processes = await Promise.all([startApi({ config, log }), startApi({ config, log })]);
  const published = await Promise.all(
    processes.map(async ({ publicAddress: { port } }) => {
      const response = await fetch(`http://127.0.0.1:${port}/.well-known/jwks.json`);
      return (await response.json()) as { keys: { kid: string }[] };
    }),
  );
  await Promise.all(processes.map(async (running) => await running.close()));
  expect(published[0]?.keys).toHaveLength(2);
  expect(published[0]).toEqual(published[1]);
});

test("an api prepares the next key of access tokens a day before it is due", async () => {
  const earlier = { now: () => Date.now() - 29 * 86_400_000 - 60_000 };
  const db = pool("signet_operator");
  await ensureSigningKey({ db, keyring, clock: earlier, purpose: "access", alg: "ES256" });
  const running = await startApi({ config: apiConfig(), log });
  await eventually(
    async () => (await keysInDatabase()).some(({ state }) => state === "NEXT"),
    "the next key of access tokens",
  );
  await running.close();
});

test("at most one key can be current", async () => {
  const db = pool("signet_operator");
  expect(await insertFirstKey(db, "access", await generateSigningKey("ES256", keyring), nowMs)).toBe(true);
  expect(await insertFirstKey(db, "access", await generateSigningKey("ES256", keyring), nowMs)).toBe(false);
  expect(await keysInDatabase()).toHaveLength(1);
});

test("the private key is stored as an envelope, and the error names a wrong key-encryption key", async () => {
  await ensureSigningKey({ db: pool("signet_operator"), keyring, clock, purpose: "access", alg: "ES256" });
  const [row] = await keysInDatabase();
  expect(row?.private_key).toMatch(/^v1\.[0-9a-f]{8}\./);
  await expect(open(testKeyring())).rejects.toThrow(/SIGNET_KEK is not the key/);
});

test("without a key signing fails, and the caller is asked to retry", async () => {
  const store = await open();
  expect(() => store.signingKey()).toThrow(
    expect.objectContaining({ code: "UNAVAILABLE", headers: { "retry-after": "1" } }),
  );
});

test("another process's key is loaded when a token names it, at most every 30 seconds", async () => {
  const store = await open();
  await ensureSigningKey({ db: pool("signet_operator"), keyring, clock, purpose: "access", alg: "ES256" });
  const [row] = await keysInDatabase();
  const kid = row?.kid ?? "";
  nowMs += 29_999;
  // Without any keys, nothing is known about the token.
  await expect(async () => await store.verificationKey(kid)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  nowMs += 1;
  expect(await store.verificationKey(kid)).toBeDefined();
  expect(store.signingKey().kid).toBe(kid);
});

test("a key that is being read is waited for", async () => {
  const store = await open();
  await ensureSigningKey({ db: pool("signet_operator"), keyring, clock, purpose: "access", alg: "ES256" });
  const [row] = await keysInDatabase();
  const reading = store.refresh();
  expect(await store.verificationKey(row?.kid ?? "")).toBeDefined();
  await reading;
});

test("the issuer can read but not write keys", async () => {
  const db = pool("signet_issuer");
  await expect(
    insertFirstKey(db, "access", await generateSigningKey("ES256", keyring), nowMs),
  ).rejects.toThrow(/permission denied/);
});
