import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type InclusionProof,
  type TreeHead,
  verifyConsistency,
  verifyInclusion,
} from "#lib/transparency-log/merkle-proof.ts";
import { leafHash, sha256 } from "#lib/transparency-log/node-crypto.ts";
import { CRYPTOS } from "#test/support/proof-crypto.ts";
import {
  completeSubtrees,
  consistencyRanges,
  type EntryRange,
  GrowingTree,
  inclusionRanges,
} from "#compliance/merkle.ts";
import {
  CONSISTENCY,
  definition,
  grow,
  hashesOf,
  INCLUSION,
  LEAVES,
  ROOTS,
  uniformTree,
} from "#test/support/merkle-vectors.ts";

const inTree = async (proof: InclusionProof, leaf: Uint8Array, root: Uint8Array): Promise<boolean> =>
  await verifyInclusion(proof, leaf, root, sha256);
const continues = async (
  smaller: TreeHead,
  larger: TreeHead,
  hashes: readonly Uint8Array[],
): Promise<boolean> => await verifyConsistency(smaller, larger, hashes, sha256);
const manyLeaves = (count: number): Buffer[] =>
  Array.from({ length: count }, (_value, index) => leafHash(Buffer.from(String(index))));

test.each(ROOTS.map((root, size) => [size, root] as const))(
  "the tree of the first %i reference entries has the published root",
  (size, root) => {
    expect(grow(LEAVES.slice(0, size)).root.toString("hex")).toBe(root);
  },
);

describe.each(CRYPTOS)("published proofs, with %s's cryptography,", (_whose, { sha256 }) => {
  test.each(INCLUSION)("for entry %i in the tree of %i entries", async (index, treeSize, proof) => {
    const hashes = hashesOf(inclusionRanges(index, treeSize), LEAVES);
    expect(hashes.map((hash) => hash.toString("hex"))).toEqual(proof);
    const root = Buffer.from(ROOTS[treeSize] ?? "", "hex");
    const leaf = LEAVES[index] ?? Buffer.of();
    expect(await verifyInclusion({ index, treeSize, hashes }, leaf, root, sha256)).toBe(true);
    expect(await verifyInclusion({ index, treeSize, hashes }, leaf, Buffer.alloc(32), sha256)).toBe(false);
  });

  test.each(CONSISTENCY)("that the first %i entries are a prefix of %i", async (from, to, proof) => {
    const hashes = hashesOf(consistencyRanges(from, to), LEAVES);
    expect(hashes.map((hash) => hash.toString("hex"))).toEqual(proof);
    const head = (size: number) => ({ size, root: Buffer.from(ROOTS[size] ?? "", "hex") });
    expect(await verifyConsistency(head(from), head(to), hashes, sha256)).toBe(true);
    const forked = { size: to, root: Buffer.alloc(32) };
    expect(await verifyConsistency(head(from), forked, hashes, sha256)).toBe(false);
  });
});

describe("proofs of every tree of up to 70 entries", () => {
  const leaves = manyLeaves(70);
  const roots = Array.from({ length: 71 }, (_value, size) => definition(leaves.slice(0, size)));
  const rootOf = (size: number): Buffer => roots[size] ?? Buffer.of();
  const known = new Map<string, Buffer>();
  /** Returns the hashes of ranges, each computed once: thousands of proofs share them. */
  const hashesIn = (ranges: readonly EntryRange[]): Buffer[] =>
    ranges.map((range) => {
      const name = `${range.start}-${range.end}`;
      const hash = known.get(name) ?? hashesOf([range], leaves)[0] ?? Buffer.of();
      known.set(name, hash);
      return hash;
    });

  test("hold for every entry and every earlier size, and for no other root, index or entry", async () => {
    for (let size = 1; size <= 70; size += 1) {
      for (let index = 0; index < size; index += 1) {
        const proof = { index, treeSize: size, hashes: hashesIn(inclusionRanges(index, size)) };
        const leaf = leaves[index] ?? Buffer.of();
        expect(await inTree(proof, leaf, rootOf(size))).toBe(true);
        expect(await inTree(proof, leaf, rootOf(size - 1))).toBe(false);
        expect(await inTree(proof, leafHash(Buffer.of(1)), rootOf(size))).toBe(false);
        expect(await inTree({ ...proof, index: (index + 1) % size }, leaf, rootOf(size))).toBe(size === 1);

        const old = { size: index + 1, root: rootOf(index + 1) };
        const hashes = hashesIn(consistencyRanges(index + 1, size));
        expect(await continues(old, { size, root: rootOf(size) }, hashes)).toBe(true);
        const forked = { size, root: leafHash(Buffer.of(2)) };
        expect(await continues(old, forked, hashes)).toBe(false);
        expect(await continues({ ...old, root: forked.root }, { size, root: rootOf(size) }, hashes)).toBe(
          false,
        );
      }
    }
  });

  test("do not hold when a hash is changed, missing or added", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 3, max: 70 }), fc.nat(), fc.nat(), async (size, at, where) => {
        const index = at % size;
        const hashes = hashesIn(inclusionRanges(index, size));
        const proof = { index, treeSize: size, hashes };
        const leaf = leaves[index] ?? Buffer.of();
        const place = where % hashes.length;
        for (const wrong of [
          hashes.with(place, leafHash(Buffer.of(9))),
          hashes.with(place, Buffer.of(1)),
          hashes.toSpliced(place, 1),
          [...hashes, leafHash(Buffer.of(9))],
        ]) {
          expect(await inTree({ ...proof, hashes: wrong }, leaf, rootOf(size))).toBe(false);
        }
        const from = 1 + (index % (size - 1));
        const heads = [
          { size: from, root: rootOf(from) },
          { size, root: rootOf(size) },
        ] as const;
        const consistency = hashesIn(consistencyRanges(from, size));
        const spot = where % consistency.length;
        for (const wrong of [
          consistency.with(spot, leafHash(Buffer.of(9))),
          consistency.toSpliced(spot, 1),
          [...consistency, leafHash(Buffer.of(9))],
        ]) {
          expect(await continues(...heads, wrong)).toBe(false);
        }
      }),
    );
  });

  test("of an impossible index or size are rejected", async () => {
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
      expect(await inTree({ index, treeSize, hashes: [] }, leaf, root)).toBe(false);
    }
    expect(await continues({ size: 2, root }, { size: 1, root }, [])).toBe(false);
    expect(await continues({ size: 1, root }, { size: 1, root: rootOf(2) }, [])).toBe(false);
    expect(await continues({ size: 0, root: rootOf(0) }, { size: 1, root }, [])).toBe(true);
  });
});

describe("beyond 2^31 entries", () => {
  test.each([2 ** 31 + 5, 2 ** 40 - 1, 2 ** 49 + 1, 2 ** 52 - 1])(
    "proofs of a tree of %d hold",
    async (size) => {
      const { leaf, rootOf } = uniformTree();
      const index = size - 3;
      const hashes = inclusionRanges(index, size).map(({ start, end }) => rootOf(start, end));
      const root = rootOf(0, size);
      expect(await inTree({ index, treeSize: size, hashes }, leaf, root)).toBe(true);
      expect(hashes.length).toBeLessThan(54);
      for (const from of [3, 2 ** 30 + 7, size - 1, size]) {
        const proof = consistencyRanges(from, size).map(({ start, end }) => rootOf(start, end));
        expect(await continues({ size: from, root: rootOf(0, from) }, { size, root }, proof)).toBe(true);
      }
    },
  );

  test("appending still works", () => {
    const peaks = Array.from({ length: 40 }, (_value, level) => leafHash(Buffer.of(level)));
    const tree = new GrowingTree({ size: 2 ** 40 - 1, peaks });
    tree.append(leafHash(Buffer.of(1)));
    expect(tree.frontier).toMatchObject({ size: 2 ** 40, peaks: { length: 1 } });
  });
});

test("appending one by one gives the defined root at every size", () => {
  const leaves = manyLeaves(130);
  const tree = new GrowingTree();
  for (const [index, leaf] of leaves.entries()) {
    tree.append(leaf);
    expect(tree.root).toEqual(definition(leaves.slice(0, index + 1)));
    expect(tree.frontier.peaks).toHaveLength(completeSubtrees(0, index + 1).length);
  }
});

test("a tree without its subtrees is rejected", () => {
  expect(() => new GrowingTree({ size: 3, peaks: [] })).toThrow(RangeError);
});

test("the empty tree has one root", async () => {
  const empty = { size: 0, root: sha256(new Uint8Array()) };
  const other = { size: 0, root: sha256(Buffer.from("other")) };
  const larger = { size: 3, root: sha256(Buffer.from("larger")) };
  expect(await verifyConsistency(empty, empty, [], sha256)).toBe(true);
  expect(await verifyConsistency(empty, larger, [], sha256)).toBe(true);
  for (const [from, to] of [
    [other, other],
    [empty, other],
    [other, empty],
    [other, larger],
  ] as const) {
    expect(await verifyConsistency(from, to, [], sha256)).toBe(false);
  }
});
