/**
 * Signs checkpoints of the compliance log, and never two different histories (security decisions E). Each checkpoint
 * extends the newest one in the sink. That one's root authenticates the database's subtrees of the old tree. Every
 * later entry is hashed here.
 */
import { leafHash, NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import {
  type Checkpoint,
  NoteError,
  openCheckpoint,
  parseVerifierKey,
  type VerifierKey,
} from "#lib/transparency-log/signed-note.ts";
import type { Pool } from "#database/pool.ts";
import {
  insertCheckpoint,
  newestCheckpoint,
  readHead,
  readLogRows,
} from "#database/repositories/compliance-tree.ts";
import { oldestUnsigned } from "#database/repositories/webhooks/census.ts";
import type { Clock } from "#domain/clock.ts";
import { metrics } from "#observability/metrics.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import type { CheckpointKey } from "./checkpoint-key.ts";
import type { CheckpointSink, KeptCheckpoint } from "./checkpoint-sink.ts";
import { GrowingTree, rootHash } from "./merkle.ts";
import { readFrontier, storeTiles, TreeUnreadableError } from "./tree-reader.ts";

const MEASURE_MS = 15_000;
const PAGE_ENTRIES = 2_000;
/** Maximum number of attempts when other signers are faster. */
const TRIES_MAX = 10;

/** The log or the sink contradicts an earlier checkpoint. Nothing is signed until people have investigated. */
export class CheckpointRefusedError extends Error {
  override readonly name = "CheckpointRefusedError";
}

export interface CheckpointSigner {
  readonly key: CheckpointKey;
  /** Keys whose checkpoints may be extended: the current key and earlier ones. */
  readonly trusted: readonly VerifierKey[];
  readonly sink: CheckpointSink;
  /** Role signet_audit, which reads entries. */
  readonly auditPool: Pool;
  /** Role signet_worker, which keeps tiles and copies of checkpoints. */
  readonly pool: Pool;
  readonly clock: Clock;
}

export interface SigningResult {
  /** Entries under the newest checkpoint. */
  readonly size: number;
  readonly seq: number;
  /** False if there was nothing new. */
  readonly signed: boolean;
}

type Signed = KeptCheckpoint & Omit<Checkpoint, "origin">;

/** The state before the first checkpoint. */
const NOTHING: Signed = { seq: 0, note: "", size: 0, root: rootHash([]) };

async function open(kept: KeptCheckpoint, { trusted }: CheckpointSigner): Promise<Signed> {
  try {
    return { ...kept, ...(await openCheckpoint(kept.note, trusted, NODE_CRYPTO)) };
  } catch (error) {
    if (error instanceof NoteError) {
      throw new CheckpointRefusedError(`checkpoint ${kept.seq} of the sink: ${error.message}`);
    }
    throw error;
  }
}

/** Returns this signer's key if it signed the note; null for an earlier key, whose text is not known. */
async function verifierKeyOf(
  { note }: KeptCheckpoint,
  { key: { verifierKey } }: CheckpointSigner,
): Promise<string | null> {
  try {
    await openCheckpoint(note, [await parseVerifierKey(verifierKey, NODE_CRYPTO)], NODE_CRYPTO);
    return verifierKey;
  } catch (error) {
    if (error instanceof NoteError) {
      return null;
    }
    throw error;
  }
}

/** Reads the last signed tree from the database, and checks it against the checkpoint. */
async function readSigned({ pool }: CheckpointSigner, last: Signed): Promise<GrowingTree> {
  const tree = new GrowingTree(await readFrontier(pool, last.size));
  if (!tree.root.equals(last.root)) {
    throw new CheckpointRefusedError(
      `the first ${last.size} entries differ from those under checkpoint ${last.seq}`,
    );
  }
  return tree;
}

/** Appends the entries below `end`, hashing each one. */
async function growTo(end: number, tree: GrowingTree, { auditPool }: CheckpointSigner): Promise<void> {
  while (tree.size < end) {
    const rows = await readLogRows(auditPool, { first: tree.size, end, limit: PAGE_ENTRIES });
    for (const { idx, entry, leaf_hash: stored } of rows) {
      const leaf = leafHash(entry);
      if (idx !== tree.size || !leaf.equals(stored)) {
        throw new CheckpointRefusedError(`entry ${tree.size} is missing or does not match its stored hash`);
      }
      tree.append(leaf);
    }
    if (rows.length === 0) {
      throw new CheckpointRefusedError(`entry ${tree.size} is missing`);
    }
  }
}

/** Copies checkpoints that only the sink has, because a signer died in between, to the database. */
async function publish(signer: CheckpointSigner, newest: Signed): Promise<void> {
  const { pool, sink, clock } = signer;
  const published = await newestCheckpoint(pool);
  const kept = published && (await sink.read(published.seq));
  if (published !== undefined && kept?.note !== published.note) {
    throw new CheckpointRefusedError(
      `the sink lacks checkpoint ${published.seq} or has a different one than the database: is it another sink, or an old copy?`,
    );
  }
  for (let seq = (published?.seq ?? 0) + 1; seq <= newest.seq; seq += 1) {
    const missed = await sink.read(seq);
    if (missed === undefined) {
      throw new CheckpointRefusedError(`the sink has lost checkpoint ${seq}`);
    }
    const { size, root } = await open(missed, signer);
    await insertCheckpoint(pool, {
      ...missed,
      size,
      root: Buffer.from(root),
      signed_at: new Date(clock.now()),
      verifier_key: await verifierKeyOf(missed, signer),
    });
  }
}

/** Tries once. Returns undefined if another signer took the number first. */
async function trySigning(signer: CheckpointSigner): Promise<SigningResult | undefined> {
  const { key, sink, pool } = signer;
  const kept = await sink.newest();
  const last = kept === undefined ? NOTHING : await open(kept, signer);
  const head = await readHead(pool);
  if (head.size < last.size) {
    throw new CheckpointRefusedError(
      `the log has ${head.size} entries, checkpoint ${last.seq} was signed over ${last.size}`,
    );
  }
  await storeTiles(pool, head.size);
  const tree = await readSigned(signer, last);
  // Only after that check: a restored database must not receive checkpoints that contradict its entries.
  await publish(signer, last);
  await growTo(head.size, tree, signer);
  if (!tree.root.equals(head.root)) {
    throw new CheckpointRefusedError("the head of the log does not match its entries");
  }
  if (tree.size === last.size) {
    return { size: tree.size, seq: last.seq, signed: false };
  }
  const next = { seq: last.seq + 1, note: key.sign({ size: tree.size, root: tree.root }) };
  // Stored before it is published: a published checkpoint that is forgotten could be contradicted.
  if (!(await sink.append(next))) {
    return undefined;
  }
  await publish(signer, await open(next, signer));
  return { size: tree.size, seq: next.seq, signed: true };
}

/**
 * Signs the current log, unless nothing was added. May run concurrently with other signers of the same sink.
 *
 * @throws CheckpointRefusedError if the log does not extend the newest checkpoint
 */
export async function signCheckpoint(signer: CheckpointSigner): Promise<SigningResult> {
  try {
    for (let count = 0; count < TRIES_MAX; count += 1) {
      const result = await trySigning(signer);
      if (result !== undefined) {
        return result;
      }
    }
  } catch (error) {
    if (error instanceof TreeUnreadableError || error instanceof RangeError) {
      throw new CheckpointRefusedError(error.message, { cause: error });
    }
    throw error;
  }
  throw new Error(`other signers were faster ${TRIES_MAX} times`);
}

/** Returns the job that measures how long the oldest entry has waited for a checkpoint. */
export function checkpointAgeJob({
  auditPool,
  clock,
}: Pick<CheckpointSigner, "auditPool" | "clock">): UpkeepJob {
  return {
    name: "checkpoint age",
    everyMs: MEASURE_MS,
    run: async () => {
      const since = await oldestUnsigned(auditPool);
      metrics.checkpointAge.set(since === undefined ? 0 : Math.max(0, clock.now() - since.getTime()) / 1_000);
    },
  };
}
