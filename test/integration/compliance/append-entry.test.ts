/** The compliance log: entries form a Merkle tree, commit with their transaction, and cannot be changed. */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { appendEntry, appendEntryNow, type LogPlace } from "#compliance/append-entry.ts";
import type { ComplianceEntry } from "#compliance/entry.ts";
import { leafHash } from "#lib/transparency-log/node-crypto.ts";
import { type Frontier, GrowingTree } from "#compliance/merkle.ts";
import { createPool, type Pool, SERVICE_ROLES, type ServiceRole } from "#database/pool.ts";
import { tenantTransaction, transaction } from "#database/transaction.ts";
import { newId } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { useTestDatabase } from "#test/support/services.ts";

const database = useTestDatabase();
const sources = { clock: { now: () => 1_763_650_000_123 }, randomBytes };
const TENANT = newId("tenant", 0, randomBytes);
const ENTRY: ComplianceEntry = {
  type: "credential.revoked",
  actor: "operator:root",
  tenant: TENANT,
  target: newId("credential", 0, randomBytes),
};
const pools = new Map<ServiceRole, Pool>();
let superuser: Client;

function pool(role: ServiceRole): Pool {
  const made = pools.get(role);
  if (made === undefined) {
    throw new Error(`no pool for ${role}`);
  }
  return made;
}

interface StoredEntry {
  readonly idx: number;
  readonly entry: Buffer;
  readonly leaf_hash: Buffer;
}

async function stored(): Promise<StoredEntry[]> {
  return (await superuser.query<StoredEntry>("SELECT idx, entry, leaf_hash FROM clog ORDER BY idx")).rows;
}

async function head(): Promise<Frontier & { readonly root: string }> {
  const { rows } = await superuser.query<{ size: number; frontier: Buffer[]; root: Buffer }>(
    "SELECT size, frontier, root FROM clog_head",
  );
  const { size = -1, frontier = [], root = Buffer.of() } = rows[0] ?? {};
  return { size, peaks: frontier, root: root.toString("hex") };
}

async function append(entry: ComplianceEntry = ENTRY): Promise<LogPlace> {
  return await transaction(pool("signet_operator"), async (db) => await appendEntryNow(db, entry, sources));
}

beforeAll(async () => {
  const log = createLogger({ level: "silent" });
  for (const role of SERVICE_ROLES) {
    pools.set(role, createPool({ url: database.url, role, max: 8, log }));
  }
  superuser = new Client({ connectionString: database.adminUrl });
  await superuser.connect();
});
afterAll(async () => {
  await superuser.end();
  await Promise.all([...pools.values()].map(async (pool) => await pool.end()));
});

test("concurrent entries have no gaps, and their tree is the one that a verifier computes", async () => {
  const places = await Promise.all(Array.from({ length: 75 }, async () => await append()));
  const rows = await stored();
  expect(rows.map(({ idx }) => idx)).toEqual(rows.map((_, index) => index));
  expect(new Set(places.map(({ index }) => index)).size).toBe(75);
  for (const { index, leafHash: hash } of places) {
    expect(rows[index]?.leaf_hash.toString("hex")).toBe(hash);
  }
  const tree = new GrowingTree();
  for (const { entry, leaf_hash: stored } of rows) {
    expect(leafHash(entry)).toEqual(stored);
    tree.append(stored);
  }
  expect(await head()).toEqual({ ...tree.frontier, root: tree.root.toString("hex") });
});

test("32 concurrent writers with rollbacks leave no gap and no duplicate index", async () => {
  const WRITERS = 32;
  const EACH = 6;
  const { size } = await head();
  const many = createPool({
    url: database.url,
    role: "signet_operator",
    max: WRITERS,
    log: createLogger({ level: "silent" }),
  });
  const places: number[] = [];
  /** All connections are open before the first write. */
  const clients = await Promise.all(Array.from({ length: WRITERS }, async () => await many.connect()));
  try {
    await Promise.all(
      clients.map(async (client, writer) => {
        for (let count = 0; count < EACH; count += 1) {
          await client.query("BEGIN");
          const { index } = await appendEntryNow(client, ENTRY, sources);
          if ((writer + count) % 3 === 0) {
            await client.query("ROLLBACK");
          } else {
            await client.query("COMMIT");
            places.push(index);
          }
        }
      }),
    );
  } finally {
    clients.forEach((client) => client.release());
    await many.end();
  }
  expect(places).toHaveLength((WRITERS * EACH * 2) / 3);
  expect(places.toSorted((left, right) => left - right)).toEqual(places.map((_, index) => size + index));
  const rows = await stored();
  expect(rows.map(({ idx }) => idx)).toEqual(rows.map((_, index) => index));
  const tree = new GrowingTree();
  rows.forEach(({ entry }) => tree.append(leafHash(entry)));
  expect(await head()).toEqual({ ...tree.frontier, root: tree.root.toString("hex") });
});

test("an entry is canonical JSON with its index, its time and a salt", async () => {
  const entry = {
    ...ENTRY,
    reason: "laptop lost",
    requestId: "req_1",
    details: { version: 3, kinds: ["a"] },
  };
  const places = [await append(entry), await append(entry)];
  const rows = await stored();
  const [first, second] = places.map(({ index }) => rows[index]?.entry.toString("utf8") ?? "");
  expect(first).toMatch(
    new RegExp(
      `^\\{"actor":"operator:root","at":"2025-11-20T14:46:40\\.123Z","details":\\{"kinds":\\["a"\\],"version":3\\},` +
        `"idx":${places[0]?.index},"reason":"laptop lost","request_id":"req_1","salt":"[\\w-]{22}",` +
        `"target":"${ENTRY.target}","tenant":"${TENANT}","type":"credential.revoked","v":1\\}$`,
    ),
  );
  expect(second?.replace(`"idx":${places[1]?.index}`, `"idx":${places[0]?.index}`)).not.toBe(first);
});

test("an entry is committed only with its transaction", async () => {
  const before = await head();
  await expect(
    transaction(pool("signet_operator"), async (db) => {
      await appendEntryNow(db, ENTRY, sources);
      throw new Error("changed its mind");
    }),
  ).rejects.toThrow("changed its mind");
  expect(await head()).toEqual(before);
  expect(await append()).toMatchObject({ index: before.size });
});

test("a transaction that has still to commit keeps no other from appending, and its entries keep their order", async () => {
  const { size } = await head();
  const named = (reason: string): ComplianceEntry => ({ ...ENTRY, reason });
  await transaction(pool("signet_operator"), async (db) => {
    await appendEntry(db, named("second"), sources);
    await appendEntry(db, named("third"), sources);
    // Would wait for ever if the first transaction held the head.
    await transaction(pool("signet_operator"), async (other) => {
      await appendEntry(other, named("first"), sources);
    });
  });
  await transaction(pool("signet_operator"), async (db) => {
    await appendEntry(db, named("fourth"), sources);
    expect(await appendEntryNow(db, named("fifth"), sources)).toMatchObject({ index: size + 4 });
    await appendEntry(db, named("sixth"), sources);
  });
  const entries = (await stored()).slice(size).map(({ entry }) => entry.toString("utf8"));
  const reasons = entries.map((entry) => (JSON.parse(entry) as { reason: string }).reason);
  expect(reasons).toEqual(["first", "second", "third", "fourth", "fifth", "sixth"]);
});

test("what an entry's transaction has done is undone if the entry is refused at the commit", async () => {
  const { size } = await head();
  const tenantId = newId("tenant", 3, randomBytes);
  await expect(
    tenantTransaction(pool("signet_api"), tenantId, async (db) => await appendEntry(db, ENTRY, sources)),
  ).rejects.toThrow("of another tenant");
  expect(await head()).toMatchObject({ size });
});

describe("appending", () => {
  test.each(["signet_operator", "signet_issuer", "signet_worker"] as const)("%s may append", async (role) => {
    const { size } = await head();
    const place = await transaction(pool(role), async (db) => await appendEntryNow(db, ENTRY, sources));
    expect(place).toMatchObject({ index: size });
  });

  test("signet_api may append for the tenant whose request it serves", async () => {
    const { size } = await head();
    const place = await tenantTransaction(
      pool("signet_api"),
      TENANT,
      async (db) => await appendEntryNow(db, ENTRY, sources),
    );
    expect(place).toMatchObject({ index: size });
  });

  test.each([
    ["of another tenant", newId("tenant", 1, randomBytes)],
    ["of no tenant", null],
  ])("signet_api may not write an entry %s", async (_name, tenant) => {
    const { size } = await head();
    await expect(
      tenantTransaction(
        pool("signet_api"),
        TENANT,
        async (db) => await appendEntryNow(db, { ...ENTRY, tenant }, sources),
      ),
    ).rejects.toThrow("of another tenant");
    expect(await head()).toMatchObject({ size });
  });

  test.each(["signet_ingest", "signet_audit", "signet_edge"] as const)("%s may not append", async (role) => {
    await expect(appendEntryNow(pool(role), ENTRY, sources)).rejects.toThrow(/permission denied/);
  });
});

describe("reading", () => {
  test("signet_api sees the entries of its tenant, signet_audit all of them", async () => {
    const other = newId("tenant", 2, randomBytes);
    const mine = await append({ ...ENTRY, tenant: other });
    const seen = await tenantTransaction(
      pool("signet_api"),
      other,
      async (db) => (await db.query<{ idx: number }>("SELECT idx FROM clog")).rows,
    );
    expect(seen).toEqual([{ idx: mine.index }]);
    const { rows } = await pool("signet_audit").query("SELECT FROM clog");
    expect(rows).toHaveLength((await head()).size);
  });
});

describe("committed data", () => {
  const CHANGES = [
    "INSERT INTO clog SELECT log_id, idx + 1000, entry, leaf_hash, at, type, tenant_id FROM clog LIMIT 1",
    "UPDATE clog SET entry = ''",
    "DELETE FROM clog",
    "TRUNCATE clog",
    "UPDATE clog_head SET size = size + 1",
    "DELETE FROM clog_head",
    "TRUNCATE clog_head",
  ];
  const everyRole = SERVICE_ROLES.flatMap((role) => CHANGES.map((change) => [role, change] as const));

  test.each(everyRole)("%s cannot: %s", async (role, change) => {
    await expect(pool(role).query(change)).rejects.toThrow(/permission denied/);
  });

  test.each([
    ...CHANGES.slice(1, 4),
    "UPDATE clog_head SET size = size - 1",
    "UPDATE clog_head SET frontier = '{}'",
    ...CHANGES.slice(5),
  ])("even a superuser cannot, replicating or not: %s", async (change) => {
    await expect(superuser.query(change)).rejects.toThrow("append-only");
    await superuser.query("SET session_replication_role = replica");
    try {
      await expect(superuser.query(change)).rejects.toThrow("append-only");
    } finally {
      await superuser.query("RESET session_replication_role");
    }
  });
});
