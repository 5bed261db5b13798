import { createHash } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  appendLeaf,
  EMPTY_FRONTIER,
  type Frontier,
  leafHash,
  nodeHash,
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

function grow(entries: readonly Uint8Array[]): Frontier {
  return entries.reduce((tree: Frontier, entry) => appendLeaf(tree, leafHash(entry)), EMPTY_FRONTIER);
}

/** MTH of RFC 6962 section 2.1, in its own words. */
function definition(entries: readonly Uint8Array[]): Buffer {
  const [only] = entries;
  if (only === undefined) {
    return createHash("sha256").digest();
  }
  if (entries.length === 1) {
    return leafHash(only);
  }
  const half = 2 ** Math.floor(Math.log2(entries.length - 1));
  return nodeHash(definition(entries.slice(0, half)), definition(entries.slice(half)));
}

test.each(ROOTS.map((root, size) => [size, root] as const))(
  "the tree of the first %i reference entries has the published root",
  (size, root) => {
    const entries = ENTRIES.slice(0, size).map((hex) => Buffer.from(hex, "hex"));
    expect(rootHash(grow(entries)).toString("hex")).toBe(root);
  },
);

describe("appending one by one", () => {
  test("gives the root that the definition gives, at every size", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 8 }), { maxLength: 80 }), (entries) => {
        expect(rootHash(grow(entries))).toEqual(definition(entries));
      }),
    );
  });

  test("keeps one subtree for each bit of the size, and changes the root", () => {
    fc.assert(
      fc.property(fc.nat({ max: 70 }), (size) => {
        const tree = grow(Array.from({ length: size }, () => Buffer.of(1)));
        const next = appendLeaf(tree, leafHash(Buffer.of(1)));
        expect(next.peaks).toHaveLength(next.size.toString(2).replaceAll("0", "").length);
        expect(rootHash(next)).not.toEqual(rootHash(tree));
      }),
    );
  });

  test("goes on beyond 2^31 entries", () => {
    const size = 2 ** 40 - 1;
    const full = { size, peaks: Array.from({ length: 40 }, (_, level) => leafHash(Buffer.of(level))) };
    expect(appendLeaf(full, leafHash(Buffer.of(1)))).toMatchObject({ size: 2 ** 40, peaks: { length: 1 } });
  });

  test("refuses a tree whose subtrees are missing", () => {
    expect(() => appendLeaf({ size: 3, peaks: [] }, leafHash(Buffer.of(1)))).toThrow(RangeError);
  });
});
