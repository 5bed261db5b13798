/**
 * The verifier's part of RFC 6962 section 2.1 Merkle trees: proofs checked by RFC 9162 sections 2.1.3.2 and 2.1.4.2.
 * Sizes exceed 2^31, so halve by division, never by `>>`.
 */
import { equalBytes } from "./bytes.ts";

const LEAF_PREFIX = 0;
const NODE_PREFIX = 1;
const HASH_BYTES = 32;

/** SHA-256: Node's returns the digest, a browser's a promise of it. */
export type Sha256 = (input: Uint8Array) => Uint8Array | Promise<Uint8Array>;

/** Returns what is hashed for an entry. */
export function leafInput(entry: Uint8Array): Uint8Array {
  const input = new Uint8Array(1 + entry.length);
  input[0] = LEAF_PREFIX;
  input.set(entry, 1);
  return input;
}

/** Returns what is hashed for an inner node. */
export function nodeInput(left: Uint8Array, right: Uint8Array): Uint8Array {
  const input = new Uint8Array(1 + 2 * HASH_BYTES);
  input[0] = NODE_PREFIX;
  input.set(left, 1);
  input.set(right, 1 + HASH_BYTES);
  return input;
}

function half(value: number): number {
  return Math.floor(value / 2);
}

const isOdd = (value: number): boolean => value % 2 === 1;
const isTreeSize = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;

export interface InclusionProof {
  /** Index of the entry, from 0. */
  readonly index: number;
  /** Entries in the tree. */
  readonly treeSize: number;
  /** From the leaf to the root. */
  readonly hashes: readonly Uint8Array[];
}

/** A sibling on the path from a node to the root, and its side. */
interface Step {
  readonly sibling: Uint8Array;
  readonly isLeft: boolean;
}

/**
 * Returns the path from a node up to the root; `last` is the rightmost node of the same level.
 *
 * @returns undefined for too few, too many or malformed hashes
 */
function climb(node: number, last: number, hashes: readonly Uint8Array[]): readonly Step[] | undefined {
  const steps: Step[] = [];
  let [at, end] = [node, last];
  for (const sibling of hashes) {
    if (end === 0 || sibling.length !== HASH_BYTES) {
      return undefined;
    }
    const isLeft = isOdd(at) || at === end;
    steps.push({ sibling, isLeft });
    if (isLeft) {
      // On the right edge, skip levels without a sibling.
      while (!isOdd(at) && at !== 0) {
        [at, end] = [half(at), half(end)];
      }
    }
    [at, end] = [half(at), half(end)];
  }
  return end === 0 ? steps : undefined;
}

/** Returns the hash at the end of a path. */
async function hashAlong(steps: readonly Step[], start: Uint8Array, sha256: Sha256): Promise<Uint8Array> {
  let node = start;
  for (const { sibling, isLeft } of steps) {
    node = await sha256(isLeft ? nodeInput(sibling, node) : nodeInput(node, sibling));
  }
  return node;
}

/** Whether the entry with this leaf hash is at its index in the tree with this root. */
export async function verifyInclusion(
  { index, treeSize, hashes }: InclusionProof,
  leaf: Uint8Array,
  root: Uint8Array,
  sha256: Sha256,
): Promise<boolean> {
  if (!isTreeSize(index) || !isTreeSize(treeSize) || index >= treeSize) {
    return false;
  }
  const steps = climb(index, treeSize - 1, hashes);
  return steps !== undefined && equalBytes(await hashAlong(steps, leaf, sha256), root);
}

/** A tree as named by a checkpoint. */
export interface TreeHead {
  readonly size: number;
  readonly root: Uint8Array;
}

/** The start node of both walks, and the rest of the proof. */
function beginning(
  { size, root }: TreeHead,
  hashes: readonly Uint8Array[],
): readonly [Uint8Array | undefined, readonly Uint8Array[]] {
  // By comparison, because the logarithm rounds.
  const isPowerOfTwo = 2 ** Math.round(Math.log2(size)) === size;
  return isPowerOfTwo ? [root, hashes] : [hashes[0], hashes.slice(1)];
}

/** Whether trees fit of which the smaller one is empty, or as large as the other: no proof has hashes for these. */
async function isConsistentAlone(smaller: TreeHead, larger: TreeHead, sha256: Sha256): Promise<boolean> {
  // The root of no entries is the hash of nothing (RFC 9162 section 2.1.1).
  const root = smaller.size === 0 ? await sha256(new Uint8Array()) : larger.root;
  return equalBytes(smaller.root, root) && (larger.size > 0 || equalBytes(larger.root, root));
}

/** Whether the larger tree extends the smaller one. */
export async function verifyConsistency(
  smaller: TreeHead,
  larger: TreeHead,
  hashes: readonly Uint8Array[],
  sha256: Sha256,
): Promise<boolean> {
  if (!isTreeSize(smaller.size) || !isTreeSize(larger.size) || smaller.size > larger.size) {
    return false;
  }
  if (smaller.size === larger.size || smaller.size === 0) {
    return hashes.length === 0 && (await isConsistentAlone(smaller, larger, sha256));
  }
  const [first, rest] = beginning(smaller, hashes);
  if (first === undefined || hashes.length === 0) {
    return false;
  }
  let node = smaller.size - 1;
  let last = larger.size - 1;
  while (isOdd(node)) {
    [node, last] = [half(node), half(last)];
  }
  const steps = climb(node, last, rest);
  if (steps === undefined) {
    return false;
  }
  const ofSmaller = steps.filter(({ isLeft }) => isLeft);
  return (
    equalBytes(await hashAlong(ofSmaller, first, sha256), smaller.root) &&
    equalBytes(await hashAlong(steps, first, sha256), larger.root)
  );
}
