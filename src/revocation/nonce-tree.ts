/**
 * Hash trees over nonces, so that one question to the primary serves all processes behind a hub. A hub's root is the
 * nonce of its own question, also to another hub. Leaves and nodes are hashed as in RFC 9162 section 2.1.1.
 */
import { hash } from "node:crypto";

const LEAF = Buffer.of(0);
const NODE = Buffer.of(1);
/** Maximum height of a tree: 1,024 nonces. */
const HEIGHT_MAX = 10;
/** Maximum number of nonces in a tree. */
export const TREE_NONCES_MAX = 2 ** HEIGHT_MAX;
/** Maximum number of trees above a nonce: hubs between a process and the primary. */
const TREES_MAX = 4;
const HASH_BYTES = 32;

/** A sibling on the way to the root: `l` or `r` for its side, and its hash in base64url. */
export type Sibling = `${"l" | "r"}${string}`;
/** The siblings from a nonce to the root of one tree, from the bottom. */
export type Path = readonly Sibling[];

function digest(...parts: readonly Buffer[]): Buffer {
  return hash("sha256", Buffer.concat(parts), "buffer");
}

/** Returns the root of the tree over these nonces, and the path of each. */
export function treeOf(nonces: readonly Buffer[]): {
  readonly root: Buffer;
  readonly paths: readonly Path[];
} {
  const paths: Sibling[][] = nonces.map(() => []);
  let level = nonces.map((nonce, index) => ({ node: digest(LEAF, nonce), below: [index] }));
  while (level.length > 1) {
    const above: typeof level = [];
    for (let at = 0; at < level.length; at += 2) {
      const left = level[at] as (typeof level)[number];
      const right = level[at + 1];
      if (right === undefined) {
        above.push(left);
        continue;
      }
      for (const index of left.below) {
        paths[index]?.push(`r${right.node.toString("base64url")}`);
      }
      for (const index of right.below) {
        paths[index]?.push(`l${left.node.toString("base64url")}`);
      }
      above.push({ node: digest(NODE, left.node, right.node), below: [...left.below, ...right.below] });
    }
    level = above;
  }
  return { root: level[0]?.node ?? digest(LEAF), paths };
}

/**
 * Returns the root that a nonce leads to over the trees above it, from the lowest.
 *
 * @returns undefined if a path is malformed or too long
 */
export function rootOf(nonce: Buffer, trees: readonly Path[]): Buffer | undefined {
  if (trees.length > TREES_MAX) {
    return undefined;
  }
  let node = nonce;
  for (const path of trees) {
    if (path.length > HEIGHT_MAX) {
      return undefined;
    }
    node = digest(LEAF, node);
    for (const sibling of path) {
      const other = Buffer.from(sibling.slice(1), "base64url");
      if (other.length !== HASH_BYTES) {
        return undefined;
      }
      node = sibling[0] === "l" ? digest(NODE, other, node) : digest(NODE, node, other);
    }
  }
  return node;
}
