/**
 * The Merkle tree of RFC 6962 section 2.1, as a verifier computes it. What the log itself is appended with runs in
 * PostgreSQL (migration 0005); that the two agree is what makes either worth something.
 */
import { createHash } from "node:crypto";

const LEAF = Buffer.from([0]);
const NODE = Buffer.from([1]);

/** Hash of an entry. */
export function leafHash(entry: Uint8Array): Buffer {
  return createHash("sha256").update(LEAF).update(entry).digest();
}

/** Hash of an inner node. */
export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  return createHash("sha256").update(NODE).update(left).update(right).digest();
}

/** A tree as far as appending needs it: the roots of its complete subtrees, largest first. */
export interface Frontier {
  /** Entries in the tree. */
  readonly size: number;
  /** One for each bit that is set in `size`. */
  readonly peaks: readonly Buffer[];
}

export const EMPTY_FRONTIER: Frontier = { size: 0, peaks: [] };

/** The tree with one more entry. Division and not `>>`, which ends at 2^31. */
export function appendLeaf({ size, peaks }: Frontier, leaf: Buffer): Frontier {
  const kept = [...peaks];
  let node = leaf;
  for (let rest = size; rest % 2 === 1; rest = (rest - 1) / 2) {
    const left = kept.pop();
    if (left === undefined) {
      throw new RangeError(`a tree of ${size} entries has more peaks than were given`);
    }
    node = nodeHash(left, node);
  }
  return { size: size + 1, peaks: [...kept, node] };
}

/** The root (Merkle Tree Hash); of an empty tree the hash of nothing. */
export function rootHash({ peaks }: Frontier): Buffer {
  const smallest = peaks.at(-1);
  if (smallest === undefined) {
    return createHash("sha256").digest();
  }
  return peaks.slice(0, -1).reduceRight((root, peak) => nodeHash(peak, root), smallest);
}
