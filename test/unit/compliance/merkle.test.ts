import { createHash } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { leafHash, nodeHash, verifyConsistency, verifyInclusion } from "../../../src/client/merkle-proof.ts";
import {
  completeSubtrees,
  consistencyRanges,
  type EntryRange,
  GrowingTree,
  inclusionRanges,
  rootHash,
} from "../../../src/compliance/merkle.ts";

/** The entries and roots of the reference test suite of RFC 6962. */
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
const ROOTS = [
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
/** The proofs of the same suite: index (from 0), size, hashes. */
const INCLUSION: readonly (readonly [number, number, readonly string[]])[] = [
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
const CONSISTENCY: readonly (readonly [number, number, readonly string[]])[] = [
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

const LEAVES = ENTRIES.map((entry) => leafHash(Buffer.from(entry, "hex")));

/** MTH of RFC 6962 section 2.1, in its own words. */
function definition(leaves: readonly Buffer[]): Buffer {
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

function grow(leaves: readonly Buffer[]): GrowingTree {
  const tree = new GrowingTree();
  leaves.forEach((leaf) => tree.append(leaf));
  return tree;
}

/** The hashes of ranges, put together from complete subtrees as a server does. */
function hashesOf(ranges: readonly EntryRange[], leaves: readonly Buffer[]): Buffer[] {
  return ranges.map(({ start, end }) =>
    rootHash(
      completeSubtrees(start, end).map(({ level, index }) =>
        definition(leaves.slice(index * 2 ** level, (index + 1) * 2 ** level)),
      ),
    ),
  );
}

const manyLeaves = (count: number): Buffer[] =>
  Array.from({ length: count }, (_value, index) => leafHash(Buffer.from(String(index))));

test.each(ROOTS.map((root, size) => [size, root] as const))(
  "the tree of the first %i reference entries has the published root",
  (size, root) => {
    expect(grow(LEAVES.slice(0, size)).root.toString("hex")).toBe(root);
  },
);

describe("published proofs", () => {
  test.each(INCLUSION)("of entry %i in the tree of %i entries", (index, treeSize, proof) => {
    const hashes = hashesOf(inclusionRanges(index, treeSize), LEAVES);
    expect(hashes.map((hash) => hash.toString("hex"))).toEqual(proof);
    const root = Buffer.from(ROOTS[treeSize] ?? "", "hex");
    expect(verifyInclusion({ index, treeSize, hashes }, LEAVES[index] ?? Buffer.of(), root)).toBe(true);
  });

  test.each(CONSISTENCY)("that %i entries are the beginning of %i", (from, to, proof) => {
    const hashes = hashesOf(consistencyRanges(from, to), LEAVES);
    expect(hashes.map((hash) => hash.toString("hex"))).toEqual(proof);
    const head = (size: number) => ({ size, root: Buffer.from(ROOTS[size] ?? "", "hex") });
    expect(verifyConsistency(head(from), head(to), hashes)).toBe(true);
  });
});

describe("proofs of every tree of up to 70 entries", () => {
  const leaves = manyLeaves(70);
  const roots = Array.from({ length: 71 }, (_value, size) => definition(leaves.slice(0, size)));
  const rootOf = (size: number): Buffer => roots[size] ?? Buffer.of();

  test("hold for every entry and every earlier size, and for no other root, place or entry", () => {
    for (let size = 1; size <= 70; size += 1) {
      for (let index = 0; index < size; index += 1) {
        const proof = { index, treeSize: size, hashes: hashesOf(inclusionRanges(index, size), leaves) };
        const leaf = leaves[index] ?? Buffer.of();
        expect(verifyInclusion(proof, leaf, rootOf(size))).toBe(true);
        expect(verifyInclusion(proof, leaf, rootOf(size - 1))).toBe(false);
        expect(verifyInclusion(proof, leafHash(Buffer.of(1)), rootOf(size))).toBe(false);
        expect(verifyInclusion({ ...proof, index: (index + 1) % size }, leaf, rootOf(size))).toBe(size === 1);

        const old = { size: index + 1, root: rootOf(index + 1) };
        const hashes = hashesOf(consistencyRanges(index + 1, size), leaves);
        expect(verifyConsistency(old, { size, root: rootOf(size) }, hashes)).toBe(true);
        const forked = { size, root: leafHash(Buffer.of(2)) };
        expect(verifyConsistency(old, forked, hashes)).toBe(false);
        expect(verifyConsistency({ ...old, root: forked.root }, { size, root: rootOf(size) }, hashes)).toBe(
          false,
        );
      }
    }
  });

  test("do not hold when a hash is changed, missing or added", () => {
    fc.assert(
      fc.property(fc.integer({ min: 3, max: 70 }), fc.nat(), fc.nat(), (size, at, where) => {
        const index = at % size;
        const hashes = hashesOf(inclusionRanges(index, size), leaves);
        const proof = { index, treeSize: size, hashes };
        const leaf = leaves[index] ?? Buffer.of();
        const place = where % hashes.length;
        for (const wrong of [
          hashes.with(place, leafHash(Buffer.of(9))),
          hashes.with(place, Buffer.of(1)),
          hashes.toSpliced(place, 1),
          [...hashes, leafHash(Buffer.of(9))],
        ]) {
          expect(verifyInclusion({ ...proof, hashes: wrong }, leaf, rootOf(size))).toBe(false);
        }
        const from = 1 + (index % (size - 1));
        const heads = [
          { size: from, root: rootOf(from) },
          { size, root: rootOf(size) },
        ] as const;
        const consistency = hashesOf(consistencyRanges(from, size), leaves);
        const spot = where % consistency.length;
        for (const wrong of [
          consistency.with(spot, leafHash(Buffer.of(9))),
          consistency.toSpliced(spot, 1),
          [...consistency, leafHash(Buffer.of(9))],
        ]) {
          expect(verifyConsistency(...heads, wrong)).toBe(false);
        }
      }),
    );
  });

  test("of a place or size that cannot be are refused", () => {
    const root = rootOf(1);
    const leaf = leaves[0] ?? Buffer.of();
    for (const [index, treeSize] of [
      [-1, 1],
      [1, 1],
      [0, 0],
      [0.5, 1],
      [0, 2 ** 60],
      [Number.NaN, 1],
    ] as const) {
      expect(verifyInclusion({ index, treeSize, hashes: [] }, leaf, root)).toBe(false);
    }
    expect(verifyConsistency({ size: 2, root }, { size: 1, root }, [])).toBe(false);
    expect(verifyConsistency({ size: 1, root }, { size: 1, root: rootOf(2) }, [])).toBe(false);
    expect(verifyConsistency({ size: 0, root: rootOf(0) }, { size: 1, root }, [])).toBe(true);
  });
});

describe("beyond 2^31 entries", () => {
  test.each([2 ** 31 + 5, 2 ** 40 - 1, 2 ** 49 + 1, 2 ** 52 - 1])("proofs of a tree of %d hold", (size) => {
    // Every complete subtree of a level looks alike when all the entries do.
    const levels: Buffer[] = [leafHash(Buffer.of())];
    while (levels.length < 53) {
      const below = levels.at(-1) as Buffer;
      levels.push(nodeHash(below, below));
    }
    const rootOf = (start: number, end: number): Buffer =>
      rootHash(completeSubtrees(start, end).map(({ level }) => levels[level] as Buffer));
    const index = size - 3;
    const hashes = inclusionRanges(index, size).map(({ start, end }) => rootOf(start, end));
    const root = rootOf(0, size);
    expect(verifyInclusion({ index, treeSize: size, hashes }, levels[0] as Buffer, root)).toBe(true);
    expect(hashes.length).toBeLessThan(54);
    for (const from of [3, 2 ** 30 + 7, size - 1, size]) {
      const proof = consistencyRanges(from, size).map(({ start, end }) => rootOf(start, end));
      expect(verifyConsistency({ size: from, root: rootOf(0, from) }, { size, root }, proof)).toBe(true);
    }
  });

  test("appending goes on", () => {
    const peaks = Array.from({ length: 40 }, (_value, level) => leafHash(Buffer.of(level)));
    const tree = new GrowingTree({ size: 2 ** 40 - 1, peaks });
    tree.append(leafHash(Buffer.of(1)));
    expect(tree.frontier).toMatchObject({ size: 2 ** 40, peaks: { length: 1 } });
  });
});

test("appending one by one gives the root that the definition gives, at every size", () => {
  const leaves = manyLeaves(130);
  const tree = new GrowingTree();
  for (const [index, leaf] of leaves.entries()) {
    tree.append(leaf);
    expect(tree.root).toEqual(definition(leaves.slice(0, index + 1)));
    expect(tree.frontier.peaks).toHaveLength(completeSubtrees(0, index + 1).length);
  }
});

test("a tree whose subtrees are missing is refused", () => {
  expect(() => new GrowingTree({ size: 3, peaks: [] })).toThrow(RangeError);
});
