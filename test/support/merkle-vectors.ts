/** Trees of RFC 6962: published vectors, the RFC's definition, and proofs as a server builds them. */
import { createHash } from "node:crypto";
import { leafHash, nodeHash } from "#lib/transparency-log/node-crypto.ts";
import { completeSubtrees, type EntryRange, GrowingTree, rootHash } from "#compliance/merkle.ts";

/** Entries and roots of the reference test suite of RFC 6962. */
const ENTRIES = [
  "",
  "00",
  "10",
  "2021",
  "3031",
  "40414243",
  "5051525354555657",
  "606162636465666768696a6b6c6d6e6f",
];
export const ROOTS = [
  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
  "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
  "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];
/** Proofs of the same suite: index (from 0), size, hashes. */
export const INCLUSION: readonly (readonly [number, number, readonly string[]])[] = [
  [0, 1, []],
  [
    0,
    8,
    [
      "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
  ],
  [
    5,
    8,
    [
      "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
      "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
      "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
  ],
  [2, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]],
  [
    1,
    5,
    [
      "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
  ],
];
export const CONSISTENCY: readonly (readonly [number, number, readonly string[]])[] = [
  [1, 1, []],
  [
    1,
    8,
    [
      "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
  ],
  [
    6,
    8,
    [
      "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
      "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
      "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
  ],
  [
    2,
    5,
    [
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
  ],
];

/** Hashes of the reference entries. */
export const LEAVES = ENTRIES.map((entry) => leafHash(Buffer.from(entry, "hex")));

/** MTH, exactly as RFC 6962 section 2.1 defines it. */
export function definition(leaves: readonly Buffer[]): Buffer {
  const [only] = leaves;
  if (only === undefined) {
    return createHash("sha256").digest();
  }
  if (leaves.length === 1) {
    return only;
  }
  const half = 2 ** Math.floor(Math.log2(leaves.length - 1));
  return nodeHash(definition(leaves.slice(0, half)), definition(leaves.slice(half)));
}

/** Returns the tree of these leaves, appended one by one. */
export function grow(leaves: readonly Buffer[]): GrowingTree {
  const tree = new GrowingTree();
  leaves.forEach((leaf) => tree.append(leaf));
  return tree;
}

/** Returns the hashes of ranges, combined from complete subtrees as a server does. */
export function hashesOf(ranges: readonly EntryRange[], leaves: readonly Buffer[]): Buffer[] {
  return ranges.map(({ start, end }) =>
    rootHash(
      completeSubtrees(start, end).map(({ level, index }) =>
        definition(leaves.slice(index * 2 ** level, (index + 1) * 2 ** level)),
      ),
    ),
  );
}

/** A tree of any size with identical entries, so that all complete subtrees of a level are equal. */
export function uniformTree(): {
  readonly leaf: Buffer;
  /** Root of the entries from `start` up to `end`, a range used in proofs. */
  readonly rootOf: (start: number, end: number) => Buffer;
} {
  const leaf = leafHash(Buffer.of());
  const levels = [leaf];
  while (levels.length < 53) {
    const below = levels.at(-1) as Buffer;
    levels.push(nodeHash(below, below));
  }
  const rootOf = (start: number, end: number): Buffer =>
    rootHash(completeSubtrees(start, end).map(({ level }) => levels[level] as Buffer));
  return { leaf, rootOf };
}
