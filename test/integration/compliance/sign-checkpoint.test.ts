/** Every checkpoint extends the previous one, whatever happens to the database. */
import { randomBytes } from "node:crypto";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { NODE_CRYPTO, sha256 } from "#lib/transparency-log/node-crypto.ts";
import { verifyConsistency, verifyInclusion } from "#lib/transparency-log/merkle-proof.ts";
import { openCheckpoint, parseVerifierKey, type VerifierKey } from "#lib/transparency-log/signed-note.ts";
import { appendEntry } from "#compliance/append-entry.ts";
import { CheckpointKey } from "#compliance/checkpoint-key.ts";
import { checkpointFiles, type CheckpointSink, createFileSink } from "#compliance/checkpoint-sink.ts";
import { GrowingTree } from "#compliance/merkle.ts";
import { type CheckpointSigner, signCheckpoint } from "#compliance/sign-checkpoint.ts";
import { readConsistencyProof, readInclusionProof } from "#compliance/tree-reader.ts";
import { createPool, type Pool, type ServiceRole } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import { createLogger } from "#observability/logger.ts";
import { createTestDatabase, type TestDatabase } from "#test/support/services.ts";

const sources = { clock: { now: () => 1_763_650_000_123 }, randomBytes };
let database: TestDatabase;
let superuser: Client;
let directory: string;
let key: CheckpointKey;
let ownKey: VerifierKey;
const pools = new Map<ServiceRole, Pool>();

function pool(role: ServiceRole): Pool {
  const made =
    pools.get(role) ??
    createPool({ url: database.url, role, max: 4, log: createLogger({ level: "silent" }) });
  pools.set(role, made);
  return made;
}

beforeEach(async () => {
  database = await createTestDatabase();
  superuser = new Client({ connectionString: database.adminUrl });
  await superuser.connect();
  directory = await mkdtemp(join(tmpdir(), "signet-checkpoints-"));
  key = new CheckpointKey("test.example/log", randomBytes(32));
  ownKey = await parseVerifierKey(key.verifierKey, NODE_CRYPTO);
});
afterEach(async () => {
  await superuser.end();
  await Promise.all([...pools.values()].map(async (open) => await open.end()));
  pools.clear();
  await database.drop();
  await rm(directory, { recursive: true, force: true });
});

/** Creates a signer as in a newly started process. */
function signer(changes: Partial<CheckpointSigner> = {}): CheckpointSigner {
  return {
    key,
    trusted: [ownKey],
    sink: createFileSink(directory, randomBytes),
    auditPool: pool("signet_audit"),
    pool: pool("signet_worker"),
    clock: sources.clock,
    ...changes,
  };
}

async function append(count: number): Promise<void> {
  await transaction(pool("signet_operator"), async (db) => {
    for (let made = 0; made < count; made += 1) {
      await appendEntry(
        db,
        { type: "tenant.created", actor: "operator:root", tenant: null, target: null },
        sources,
      );
    }
  });
}

/** Changes the log as a malicious superuser could. */
async function tamper(...statements: readonly string[]): Promise<void> {
  await superuser.query("ALTER TABLE clog DISABLE TRIGGER ALL");
  await superuser.query("ALTER TABLE clog_head DISABLE TRIGGER ALL");
  await superuser.query("ALTER TABLE clog_checkpoint DISABLE TRIGGER ALL");
  for (const statement of statements) {
    await superuser.query(statement);
  }
  await superuser.query("ALTER TABLE clog ENABLE ALWAYS TRIGGER clog_append_only");
  await superuser.query("ALTER TABLE clog_head ENABLE ALWAYS TRIGGER clog_head_stays");
  await superuser.query("ALTER TABLE clog_head ENABLE ALWAYS TRIGGER clog_head_grows");
  await superuser.query("ALTER TABLE clog_checkpoint ENABLE ALWAYS TRIGGER clog_checkpoint_append_only");
}

async function published(): Promise<{ seq: number; size: number; note: string }[]> {
  const { rows } = await superuser.query<{ seq: number; size: number; note: string }>(
    "SELECT seq, size, note FROM clog_checkpoint ORDER BY seq",
  );
  return rows;
}

async function head(): Promise<{ size: number; root: Uint8Array }> {
  const { rows } = await superuser.query<{ size: number; root: Buffer }>("SELECT size, root FROM clog_head");
  const { size = 0, root = Buffer.of() } = rows[0] ?? {};
  return { size, root: Uint8Array.from(root) };
}

test("a checkpoint of the log's head is signed, kept in a file and copied to the database", async () => {
  await append(3);
  expect(await signCheckpoint(signer())).toEqual({ size: 3, seq: 1, signed: true });
  const [kept] = await checkpointFiles(directory);
  expect(kept).toBe(join(directory, "000000000", "000000000001.txt"));
  const [copy] = await published();
  expect(await openCheckpoint(copy?.note ?? "", [ownKey], NODE_CRYPTO)).toEqual({
    origin: "test.example/log",
    ...(await head()),
  });
  expect(await createFileSink(directory, randomBytes).newest()).toEqual({ seq: 1, note: copy?.note });
});

test("without new entries nothing is signed again, also by a restarted signer", async () => {
  expect(await signCheckpoint(signer())).toEqual({ size: 0, seq: 0, signed: false });
  await append(2);
  await signCheckpoint(signer());
  expect(await signCheckpoint(signer())).toEqual({ size: 2, seq: 1, signed: false });
  expect(await published()).toHaveLength(1);
});

describe("a log of 70,000 entries", () => {
  /** Enough for two levels of tiles. Inserted directly, because appending would take a minute. */
  async function fill(): Promise<GrowingTree> {
    await tamper(
      `INSERT INTO clog (log_id, idx, entry, leaf_hash, at, type)
        SELECT 1, idx, entry, sha256('\\x00'::bytea || entry), now(), 'tenant.created' FROM (
          SELECT idx, convert_to('{"actor":"a","idx":' || idx || '}', 'UTF8') AS entry
            FROM generate_series(0, 69999) AS idx) AS made`,
    );
    const { rows } = await superuser.query<{ leaf_hash: Buffer }>("SELECT leaf_hash FROM clog ORDER BY idx");
    const tree = new GrowingTree();
    for (const { leaf_hash: leaf } of rows) {
      tree.append(leaf);
    }
    await superuser.query("ALTER TABLE clog_head DISABLE TRIGGER ALL");
    await superuser.query("UPDATE clog_head SET size = $1, frontier = $2, root = $3", [
      tree.size,
      tree.frontier.peaks,
      tree.root,
    ]);
    return tree;
  }

  test("is proved from tiles of two levels, which can be rebuilt", async () => {
    const { root } = await fill();
    await signCheckpoint(signer());
    const tiles = async (): Promise<unknown> =>
      (await superuser.query("SELECT level, count(*) AS count FROM clog_tile GROUP BY level ORDER BY level"))
        .rows;
    expect(await tiles()).toEqual([
      { level: 0, count: 273 },
      { level: 1, count: 1 },
    ]);
    const api = pool("signet_api");
    const { rows } = await superuser.query<{ leaf_hash: Buffer }>("SELECT leaf_hash FROM clog ORDER BY idx");
    for (const index of [0, 255, 256, 65_535, 65_536, 69_887, 69_888, 69_999]) {
      const hashes = await readInclusionProof(api, index, 70_000);
      const leaf = rows[index]?.leaf_hash ?? Buffer.of();
      expect(await verifyInclusion({ index, treeSize: 70_000, hashes }, leaf, root, sha256)).toBe(true);
    }
    await superuser.query("TRUNCATE clog_tile");
    await expect(readInclusionProof(api, 0, 70_000)).rejects.toThrow("has 0 of 256 hashes");
    await signCheckpoint(signer());
    expect(await tiles()).toHaveLength(2);
    for (const from of [1, 256, 300, 65_536, 69_000]) {
      const old = new GrowingTree();
      rows.slice(0, from).forEach(({ leaf_hash: leaf }) => old.append(leaf));
      const proof = await readConsistencyProof(api, from, 70_000);
      expect(await verifyConsistency(old, { size: 70_000, root }, proof, sha256)).toBe(true);
    }
  });
});

describe("a fork is rejected", () => {
  const FORGED = `UPDATE clog SET entry = convert_to(replace(convert_from(entry, 'UTF8'), 'operator:root', 'operator:evil'), 'UTF8')`;

  test("after an older copy of the database has grown differently", async () => {
    await append(300);
    const before = await head();
    const { rows } = await superuser.query<{ frontier: Buffer[] }>("SELECT frontier FROM clog_head");
    await append(10);
    await signCheckpoint(signer());
    await tamper("DELETE FROM clog WHERE idx >= 300", "TRUNCATE clog_checkpoint");
    await superuser.query("ALTER TABLE clog_head DISABLE TRIGGER ALL");
    await superuser.query("UPDATE clog_head SET size = 300, root = $1, frontier = $2", [
      before.root,
      rows[0]?.frontier,
    ]);
    await expect(signCheckpoint(signer())).rejects.toThrow("the log has 300 entries");
    await append(50);
    await expect(signCheckpoint(signer())).rejects.toThrow("differ from those under checkpoint 1");
    expect(await checkpointFiles(directory)).toHaveLength(1);
  });

  test("after a restore, which loses nothing more and continues with another key from the last valid checkpoint", async () => {
    await append(300);
    await signCheckpoint(signer());
    const before = await head();
    const { rows } = await superuser.query<{ frontier: Buffer[] }>("SELECT frontier FROM clog_head");
    const saved = await mkdtemp(join(tmpdir(), "signet-saved-"));
    await cp(directory, saved, { recursive: true });
    await append(10);
    await signCheckpoint(signer());
    await tamper("DELETE FROM clog WHERE idx >= 300", "DELETE FROM clog_checkpoint WHERE seq = 2");
    await superuser.query("ALTER TABLE clog_head DISABLE TRIGGER ALL");
    await superuser.query("UPDATE clog_head SET size = 300, root = $1, frontier = $2", [
      before.root,
      rows[0]?.frontier,
    ]);

    await expect(signCheckpoint(signer())).rejects.toThrow("the log has 300 entries");
    await append(20);
    await expect(signCheckpoint(signer())).rejects.toThrow("differ from those under checkpoint 2");
    // No lost checkpoint was copied into the append-only table.
    expect(await published()).toHaveLength(1);

    const next = new CheckpointKey("test.example/second", randomBytes(32));
    const trusted = [await parseVerifierKey(next.verifierKey, NODE_CRYPTO), ownKey];
    const sink = createFileSink(saved, randomBytes);
    expect(await signCheckpoint(signer({ key: next, trusted, sink }))).toEqual({
      size: 320,
      seq: 2,
      signed: true,
    });
    expect(await published()).toHaveLength(2);
    await rm(saved, { recursive: true });
  });

  test.each([
    ["a new entry does not have its hash", `${FORGED} WHERE idx = 12`, "entry 12"],
    ["a new entry is missing", "DELETE FROM clog WHERE idx = 12", "entry 12"],
    ["the last entry is missing", "DELETE FROM clog WHERE idx = 14", "entry 14"],
    ["the head has another root", "UPDATE clog_head SET root = sha256('x')", "the head of the log"],
    [
      "hashes under the last checkpoint were changed",
      "UPDATE clog SET leaf_hash = sha256('x') WHERE idx = 9",
      "the first 10 entries",
    ],
    ["the log is empty", "TRUNCATE clog", "the first 10 entries|hashes"],
    [
      "the copy of a checkpoint was changed",
      "UPDATE clog_checkpoint SET note = 'x'",
      "or has a different one than the database",
    ],
  ])("if %s", async (_what, statement, message) => {
    await append(10);
    await signCheckpoint(signer());
    await append(5);
    await tamper(statement);
    await expect(signCheckpoint(signer())).rejects.toThrow(new RegExp(message));
    // A restarted signer relies on the files, not on memory.
    await expect(signCheckpoint(signer())).rejects.toMatchObject({ name: "CheckpointRefusedError" });
    expect(await checkpointFiles(directory)).toHaveLength(1);
  });

  test("if the sink is empty and the database has checkpoints", async () => {
    await append(3);
    await signCheckpoint(signer());
    const empty = createFileSink(join(directory, "elsewhere"), randomBytes);
    await expect(signCheckpoint(signer({ sink: empty }))).rejects.toThrow("the sink lacks checkpoint 1");
  });

  test("if the sink's newest checkpoint is from an untrusted key", async () => {
    await append(3);
    await signCheckpoint(signer());
    await append(1);
    const next = new CheckpointKey("test.example/log", randomBytes(32));
    const own = [await parseVerifierKey(next.verifierKey, NODE_CRYPTO)];
    await expect(signCheckpoint(signer({ key: next, trusted: own }))).rejects.toThrow(
      "none of the given keys",
    );
    const both = [...own, ownKey];
    expect(await signCheckpoint(signer({ key: next, trusted: both }))).toEqual({
      size: 4,
      seq: 2,
      signed: true,
    });
  });
});

test("concurrent signers create one chain of checkpoints", async () => {
  await append(5);
  const working = Array.from({ length: 40 }, async (_value, index) => {
    await append(1 + (index % 3));
    return await signCheckpoint(signer());
  });
  await Promise.all(working);
  await signCheckpoint(signer());
  const rows = await published();
  expect(rows.map(({ seq }) => seq)).toEqual(rows.map((_row, index) => index + 1));
  const trees = await Promise.all(
    rows.map(async ({ note }) => await openCheckpoint(note, [ownKey], NODE_CRYPTO)),
  );
  for (const [index, earlier] of trees.slice(0, -1).entries()) {
    const later = trees[index + 1] ?? earlier;
    expect(later.size).toBeGreaterThan(earlier.size);
    const proof = await readConsistencyProof(pool("signet_audit"), earlier.size, later.size);
    expect(await verifyConsistency(earlier, later, proof, sha256)).toBe(true);
  }
  expect(trees.at(-1)).toMatchObject(await head());
});

describe("a signer that dies", () => {
  const dying = (sink: CheckpointSink, when: "before" | "after"): CheckpointSink => ({
    ...sink,
    append: async (checkpoint) => {
      if (when === "after") {
        await sink.append(checkpoint);
      }
      throw new Error("killed");
    },
  });

  test("between keeping and publishing leaves a checkpoint that the next one publishes and extends", async () => {
    await append(3);
    const sink = createFileSink(directory, randomBytes);
    await expect(signCheckpoint(signer({ sink: dying(sink, "after") }))).rejects.toThrow("killed");
    expect(await published()).toEqual([]);
    expect(await signCheckpoint(signer())).toEqual({ size: 3, seq: 1, signed: false });
    expect(await published()).toHaveLength(1);
    await append(1);
    expect(await signCheckpoint(signer())).toEqual({ size: 4, seq: 2, signed: true });
  });

  test("before keeping leaves nothing", async () => {
    await append(3);
    const sink = createFileSink(directory, randomBytes);
    await expect(signCheckpoint(signer({ sink: dying(sink, "before") }))).rejects.toThrow("killed");
    expect(await signCheckpoint(signer())).toEqual({ size: 3, seq: 1, signed: true });
  });
});

test("the sink does not overwrite an existing number", async () => {
  const sink = createFileSink(directory, randomBytes);
  expect(await sink.append({ seq: 1, note: "first" })).toBe(true);
  expect(await sink.append({ seq: 1, note: "second" })).toBe(false);
  expect(await sink.append({ seq: 1_000, note: "later" })).toBe(true);
  expect(await sink.read(1)).toEqual({ seq: 1, note: "first" });
  expect(await sink.newest()).toEqual({ seq: 1_000, note: "later" });
  expect(await checkpointFiles(directory)).toHaveLength(2);
});
