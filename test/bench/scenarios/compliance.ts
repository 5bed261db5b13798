/** Measures appends to the compliance log, and its verification. */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { leafHash, NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import { parseVerifierKey } from "#lib/transparency-log/signed-note.ts";
import { appendEntry } from "#compliance/append-entry.ts";
import { CheckpointKey } from "#compliance/checkpoint-key.ts";
import { type ComplianceEntry, encodeEntry } from "#compliance/entry.ts";
import { GrowingTree } from "#compliance/merkle.ts";
import { readLog } from "#compliance/read-log.ts";
import { storeTiles } from "#compliance/tree-reader.ts";
import { verifyLog } from "#compliance/verify-log.ts";
import { createPool, type Pool, type ServiceRole } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { newId } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";

const WRITERS = [1, 8, 32] as const;
const APPEND_SECONDS = 10;
/** Enough for more than one level of full tiles. */
const VERIFIED_ENTRIES = 200_000;
const FILL_PAGE = 5_000;
const VERIFICATIONS = 3;
const SOURCES = { clock: systemClock, randomBytes };

interface LogUnderTest {
  /** URL of the service's login. */
  readonly serviceUrl: string;
  /** URL of a superuser. */
  readonly adminUrl: string;
  readonly seconds: number;
  readonly entries: number;
}

/** An entry of typical length. */
function anEntry(): ComplianceEntry {
  const now = systemClock.now();
  return {
    type: "credential.revoked",
    actor: `operator:${newId("operator", now, randomBytes)}`,
    tenant: newId("tenant", now, randomBytes),
    target: newId("credential", now, randomBytes),
    reason: "compromised",
    requestId: newId("request", now, randomBytes),
    details: { revocation_id: newId("revocation", now, randomBytes) },
  };
}

function openPool(url: string, role: ServiceRole, max: number): Pool {
  return createPool({ url, role, max, log: createLogger({ level: "silent" }) });
}

/** Returns appends per second, each in its own transaction, made by one process. */
async function appendRate({ serviceUrl, seconds }: LogUnderTest, writers: number): Promise<number> {
  const pool = openPool(serviceUrl, "signet_operator", writers);
  try {
    const from = performance.now();
    const until = from + seconds * 1_000;
    let appended = 0;
    const write = async (): Promise<void> => {
      while (performance.now() < until) {
        await transaction(pool, async (db) => await appendEntry(db, anEntry(), SOURCES));
        appended += 1;
      }
    };
    await Promise.all(Array.from({ length: writers }, write));
    return appended / ((performance.now() - from) / 1_000);
  } finally {
    await pool.end();
  }
}

interface Filled {
  readonly tree: GrowingTree;
  readonly bytes: number;
}

/** Fills an emptied log directly, bypassing the function that appends single entries. */
async function fill(client: Client, entries: number): Promise<Filled> {
  const tree = new GrowingTree();
  let bytes = 0;
  for (const table of ["clog", "clog_head", "clog_checkpoint"]) {
    await client.query(`ALTER TABLE ${table} DISABLE TRIGGER ALL`);
  }
  await client.query("TRUNCATE clog, clog_tile, clog_checkpoint");
  while (tree.size < entries) {
    const rows: Buffer[] = [];
    const leaves: Buffer[] = [];
    while (rows.length < FILL_PAGE) {
      const { beforeIndex, afterIndex } = encodeEntry(anEntry(), SOURCES);
      const row = Buffer.concat([beforeIndex, Buffer.from(String(tree.size)), afterIndex]);
      const leaf = leafHash(row);
      tree.append(leaf);
      rows.push(row);
      leaves.push(leaf);
      bytes += row.length;
    }
    await client.query(
      `INSERT INTO clog (log_id, idx, entry, leaf_hash, at, type, tenant_id)
        SELECT 1, $1::bigint + place - 1, entry, leaf, (said ->> 'at')::timestamptz, said ->> 'type', said ->> 'tenant'
          FROM unnest($2::bytea[], $3::bytea[]) WITH ORDINALITY AS made (entry, leaf, place),
            LATERAL (SELECT convert_from(entry, 'UTF8')::jsonb AS said) AS parsed`,
      [tree.size - rows.length, rows, leaves],
    );
  }
  await client.query("UPDATE clog_head SET size = $1, frontier = $2, root = $3", [
    tree.size,
    tree.frontier.peaks,
    tree.root,
  ]);
  await client.query("ANALYZE clog");
  return { tree, bytes };
}

/** Returns the entries per second that `signet audit verify --db` verifies, the fastest of three runs. */
async function verifyRate({ serviceUrl, adminUrl, entries }: LogUnderTest) {
  const client = new Client({ connectionString: adminUrl });
  await client.connect();
  const audit = openPool(serviceUrl, "signet_audit", 2);
  const worker = openPool(serviceUrl, "signet_worker", 2);
  try {
    const { tree, bytes } = await fill(client, entries);
    await storeTiles(worker, tree.size);
    const key = new CheckpointKey("bench.example/log", randomBytes(32));
    const keys = [await parseVerifierKey(key.verifierKey, NODE_CRYPTO)];
    const kept = [{ label: "the end", note: key.sign({ size: tree.size, root: tree.root }) }];
    const seconds: number[] = [];
    for (let count = 0; count < VERIFICATIONS; count += 1) {
      const from = performance.now();
      await verifyLog(readLog(audit), { keys, kept });
      seconds.push((performance.now() - from) / 1_000);
    }
    const perSecond = seconds.map((taken) => Math.round(tree.size / taken));
    return { entries: tree.size, entry_bytes: Math.round(bytes / tree.size), per_second: perSecond };
  } finally {
    await Promise.all([client.end(), audit.end(), worker.end()]);
  }
}

async function measureLog(log: LogUnderTest) {
  const appends: Record<string, number> = {};
  for (const writers of WRITERS) {
    appends[`writers_${writers}`] = round(await appendRate(log, writers), 0);
  }
  const verified = await verifyRate(log);
  return {
    appends_per_second: appends,
    best_appends_per_second: Math.max(...Object.values(appends)),
    verified,
    best_verified_per_second: Math.max(...verified.per_second),
  };
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "compliance");
  const { serviceDatabaseUrl: serviceUrl, adminDatabaseUrl: adminUrl } = world;
  // The direct writes would make Signet's checkpoint signer fail.
  await world.stop();
  const finding = await measureLog({
    serviceUrl,
    adminUrl,
    seconds: bench.seconds(APPEND_SECONDS),
    entries: bench.events(VERIFIED_ENTRIES),
  });
  bench.findings["compliance"] = finding;
  bench.log(JSON.stringify(finding, undefined, 2));
}

export const compliance: Scenario = {
  name: "compliance",
  about: "compliance log: appends/s with 1, 8 and 32 writers, entries/s verified",
  run: runScenario,
};
