/**
 * Signs what the compliance log has become, and never two histories of it (security decisions E). What is signed next
 * extends the newest checkpoint that the sink keeps: its root authenticates the subtrees that the database gives for
 * the old tree, and every entry after it is hashed here.
 */
import { leafHash } from "../lib/transparency-log/merkle-proof.ts";
import {
  type Checkpoint,
  NoteError,
  openCheckpoint,
  parseVerifierKey,
  type VerifierKey,
} from "../lib/transparency-log/signed-note.ts";
import type { Pool } from "../database/pool.ts";
import {
  insertCheckpoint,
  newestCheckpoint,
  readHead,
  readLogRows,
} from "../database/repositories/compliance-tree.ts";
import type { Clock } from "../domain/clock.ts";
import type { CheckpointKey } from "./checkpoint-key.ts";
import type { CheckpointSink, KeptCheckpoint } from "./checkpoint-sink.ts";
import { GrowingTree, rootHash } from "./merkle.ts";
import { readFrontier, storeTiles, TreeUnreadableError } from "./tree-reader.ts";

const PAGE_ENTRIES = 2_000;
/** Each time another signer was faster. */
const TRIES_MAX = 10;

/** The log is not what was signed before, or its sink is not what it was: nothing is signed until people have looked. */
export class CheckpointRefusedError extends Error {
  override readonly name = "CheckpointRefusedError";
}

export interface CheckpointSigner {
  readonly key: CheckpointKey;
  /** Keys whose checkpoints may be extended: this one's, and those before it. */
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
  /** False: there was nothing new. */
  readonly signed: boolean;
}

type Signed = KeptCheckpoint & Omit<Checkpoint, "origin">;

/** What there is before the first checkpoint. */
const NOTHING: Signed = { seq: 0, note: "", size: 0, root: rootHash([]) };

function open(kept: KeptCheckpoint, { trusted }: CheckpointSigner): Signed {
  try {
    return { ...kept, ...openCheckpoint(kept.note, trusted) };
  } catch (error) {
    if (error instanceof NoteError) {
      throw new CheckpointRefusedError(`checkpoint ${kept.seq} of the sink: ${error.message}`);
    }
    throw error;
  }
}

/** This signer's key where it has signed the note; null where an earlier one has, which is not at hand as text. */
function verifierKeyOf({ note }: KeptCheckpoint, { key: { verifierKey } }: CheckpointSigner): string | null {
  try {
    openCheckpoint(note, [parseVerifierKey(verifierKey)]);
    return verifierKey;
  } catch (error) {
    if (error instanceof NoteError) {
      return null;
    }
    throw error;
  }
}

/** The tree that was signed last, as the database gives it and the checkpoint vouches for. */
async function readSigned({ pool }: CheckpointSigner, last: Signed): Promise<GrowingTree> {
  const tree = new GrowingTree(await readFrontier(pool, last.size));
  if (!tree.root.equals(last.root)) {
    throw new CheckpointRefusedError(
      `the first ${last.size} entries are not those that checkpoint ${last.seq} was signed over`,
    );
  }
  return tree;
}

/** Appends the entries below `end`, each hashed anew. */
async function growTo(end: number, tree: GrowingTree, { auditPool }: CheckpointSigner): Promise<void> {
  while (tree.size < end) {
    const rows = await readLogRows(auditPool, { first: tree.size, end, limit: PAGE_ENTRIES });
    for (const { idx, entry, leaf_hash: stored } of rows) {
      const leaf = leafHash(entry);
      if (idx !== tree.size || !leaf.equals(stored)) {
        throw new CheckpointRefusedError(`entry ${tree.size} is missing, or not what was hashed`);
      }
      tree.append(leaf);
    }
    if (rows.length === 0) {
      throw new CheckpointRefusedError(`entry ${tree.size} is missing`);
    }
  }
}

/** Copies what the sink keeps and the database does not have: a signer that died between the two left it so. */
async function publish(signer: CheckpointSigner, newest: Signed): Promise<void> {
  const { pool, sink, clock } = signer;
  const published = await newestCheckpoint(pool);
  const kept = published && (await sink.read(published.seq));
  if (published !== undefined && kept?.note !== published.note) {
    throw new CheckpointRefusedError(
      `the sink does not keep checkpoint ${published.seq} as the database has it: is this another sink, or an old copy?`,
    );
  }
  for (let seq = (published?.seq ?? 0) + 1; seq <= newest.seq; seq += 1) {
    const missed = await sink.read(seq);
    if (missed === undefined) {
      throw new CheckpointRefusedError(`the sink has lost checkpoint ${seq}`);
    }
    const { size, root } = open(missed, signer);
    await insertCheckpoint(pool, {
      ...missed,
      size,
      root,
      signed_at: new Date(clock.now()),
      verifier_key: verifierKeyOf(missed, signer),
    });
  }
}

/** One try; undefined when another signer has kept a checkpoint of the same number first. */
async function trySigning(signer: CheckpointSigner): Promise<SigningResult | undefined> {
  const { key, sink, pool } = signer;
  const kept = await sink.newest();
  const last = kept === undefined ? NOTHING : open(kept, signer);
  const head = await readHead(pool);
  if (head.size < last.size) {
    throw new CheckpointRefusedError(
      `the log has ${head.size} entries, checkpoint ${last.seq} was signed over ${last.size}`,
    );
  }
  await storeTiles(pool, head.size);
  const tree = await readSigned(signer, last);
  // Only now: a database that was restored must not get back what it cannot vouch for, and could never lose again.
  await publish(signer, last);
  await growTo(head.size, tree, signer);
  if (!tree.root.equals(head.root)) {
    throw new CheckpointRefusedError("the head of the log is not that of its entries");
  }
  if (tree.size === last.size) {
    return { size: tree.size, seq: last.seq, signed: false };
  }
  const next = { seq: last.seq + 1, note: key.sign({ size: tree.size, root: tree.root }) };
  // Kept before anybody sees it: what is published and then forgotten could be contradicted.
  if (!(await sink.append(next))) {
    return undefined;
  }
  await publish(signer, open(next, signer));
  return { size: tree.size, seq: next.seq, signed: true };
}

/**
 * Signs the log as it stands, unless nothing was added. May run at the same time as others with the same sink.
 *
 * @throws CheckpointRefusedError when the log does not extend what was signed
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
