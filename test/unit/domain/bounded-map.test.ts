import { expect, test } from "vitest";
import { putBounded, WeighedMap } from "../../../src/domain/bounded-map.ts";

test("the oldest entry is evicted and returned", () => {
  const map = new Map<string, number>();
  const gone = ["a", "b", "a", "c", "d"].map((key, index) => putBounded(map, key, index, 2));
  expect(gone).toEqual([undefined, undefined, undefined, "b", "a"]);
  expect([...map]).toEqual([
    ["c", 3],
    ["d", 4],
  ]);
});

test("a weighed map holds no more than its maximum, but the newest value in any case", () => {
  const map = new WeighedMap<string, number>({ weigh: (value) => value, max: 10 });
  map.put("a", 4);
  map.put("b", 4);
  map.put("a", 5);
  expect([map.get("a"), map.get("b")]).toEqual([5, 4]);
  map.put("c", 3);
  expect([map.get("a"), map.get("b"), map.get("c")]).toEqual([5, undefined, 3]);
  map.put("d", 100);
  expect([map.get("a"), map.get("c"), map.get("d")]).toEqual([undefined, undefined, 100]);
  map.delete("d");
  map.put("e", 10);
  expect(map.get("e")).toBe(10);
});
