import { expect, test } from "vitest";
import { putBounded } from "../../../src/domain/bounded-map.ts";

test("the oldest entry is evicted and returned", () => {
  const map = new Map<string, number>();
  const gone = ["a", "b", "a", "c", "d"].map((key, index) => putBounded(map, key, index, 2));
  expect(gone).toEqual([undefined, undefined, undefined, "b", "a"]);
  expect([...map]).toEqual([
    ["c", 3],
    ["d", 4],
  ]);
});
