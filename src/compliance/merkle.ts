/**
 * The Merkle tree of RFC 6962 section 2.1, as a verifier computes it. What the log itself is appended with runs in
 * PostgreSQL (migration 0005); that the two agree is what makes either worth something.
 */
import { createHash } from "node:crypto";
import { nodeHash } from "../lib/transparency-log/merkle-proof.ts";

/** A tree as far as appending needs it: the roots of its complete subtrees, largest first. */
export interface Frontier {
  /** Entries in the tree. */
  readonly size: number;
  /** One for each bit that is set in `size`. */
  readonly peaks: readonly Buffer[];
}

const EMPTY_FRONTIER: Frontier = { size: 0, peaks: [] };

/** A tree that grows in place: for the hundred thousand entries a second that a verifier takes. */
export class GrowingTree {
  #size: number;
  readonly #peaks: Buffer[];

  /** @throws RangeError when the peaks are not those of a tree of this size */
  constructor({ size, peaks }: Frontier = EMPTY_FRONTIER) {
    if (peaks.length !== completeSubtrees(0, size).length) {
      throw new RangeError(`a tree of ${size} entries has not ${peaks.length} peaks`);
    }
    this.#size = size;
    this.#peaks = [...peaks];
  }

  get size(): number {
    return this.#size;
  }

  get frontier(): Frontier {
    return { size: this.#size, peaks: [...this.#peaks] };
  }

  append(leaf: Buffer): void {
    let node = leaf;
    // Division and not `>>`, which ends at 2^31.
    for (let rest = this.#size; rest % 2 === 1; rest = (rest - 1) / 2) {
      node = nodeHash(this.#peaks.pop() as Buffer, node);
    }
    this.#peaks.push(node);
    this.#size += 1;
  }

  get root(): Buffer {
    return rootHash(this.#peaks);
  }
}

/** The root over complete subtrees, largest first (Merkle Tree Hash); of none the hash of nothing. */
export function rootHash(peaks: readonly Buffer[]): Buffer {
  const smallest = peaks.at(-1);
  if (smallest === undefined) {
    return createHash("sha256").digest();
  }
  return peaks.slice(0, -1).reduceRight((root, peak) => nodeHash(peak, root), smallest);
}

/** The entries from `start` up to `end`, without that one. */
export interface EntryRange {
  readonly start: number;
  readonly end: number;
}

/** A complete subtree: the `index`th of those with 2^level entries. */
export interface Subtree {
  readonly level: number;
  readonly index: number;
}

/** The largest power of two that is not above `count`, as its exponent. The logarithm alone rounds up beyond 2^48. */
function levelOf(count: number): number {
  const level = Math.floor(Math.log2(count));
  return 2 ** level > count ? level - 1 : level;
}

/** The complete subtrees that a range of a proof is made of, largest first. `start` is a multiple of the largest. */
export function completeSubtrees(start: number, end: number): Subtree[] {
  const found: Subtree[] = [];
  for (let at = start; at < end;) {
    const level = levelOf(end - at);
    found.push({ level, index: at / 2 ** level });
    at += 2 ** level;
  }
  return found;
}

/** The largest power of two below `size`. */
function split(size: number): number {
  return 2 ** levelOf(size - 1);
}

/** Whose hashes prove that the entry `index` is in the tree of `size` entries: PATH of RFC 6962 section 2.1.1. */
export function inclusionRanges(index: number, size: number): EntryRange[] {
  const ranges: EntryRange[] = [];
  let start = 0;
  let end = size;
  while (end - start > 1) {
    const middle = start + split(end - start);
    if (index < middle) {
      ranges.push({ start: middle, end });
      end = middle;
    } else {
      ranges.push({ start, end: middle });
      start = middle;
    }
  }
  return ranges.toReversed();
}

/** Whose hashes prove that the tree of `to` entries extends that of `from`: PROOF of RFC 6962 section 2.1.2. */
export function consistencyRanges(from: number, to: number): EntryRange[] {
  const ranges: EntryRange[] = [];
  let start = 0;
  let end = to;
  while (from < end) {
    const middle = start + split(end - start);
    if (from <= middle) {
      ranges.push({ start: middle, end });
      end = middle;
    } else {
      ranges.push({ start, end: middle });
      start = middle;
    }
  }
  // The old tree itself is known to who asks, a part of it is not.
  if (start > 0) {
    ranges.push({ start, end });
  }
  return from === to ? [] : ranges.toReversed();
}
