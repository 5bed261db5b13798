import { expect, test } from "vitest";
import { putBounded, WeighedMap } from "#domain/bounded-map.ts";

test("the oldest entry is evicted and returned", () => {
  const map = new Map<string, number>();
  const gone = ["a", "b", "a", "c", "d"].map((key, index) => putBounded(map, key, index, 2));
  expect(gone).toEqual([undefined, undefined, undefined, "b", "a"]);
  expect([...map]).toEqual([
    ["c", 3],
    ["d", 4],
  ]);
});

test("a weighed map holds what its values weigh, not a number of entries", () => {
  const map = new WeighedMap<string, number>(10);
  const put = (key: string, weight: number): string[] => {
    map.put(key, weight, weight);
    return ["a", "b", "c", "d"].filter((each) => map.get(each) !== undefined);
  };
  put("a", 3);
  put("b", 3);
  expect(put("c", 3)).toEqual(["a", "b", "c"]);
  expect(put("a", 4)).toEqual(["a", "b", "c"]);
  expect(put("d", 4)).toEqual(["a", "d"]);
  map.delete("a");
  map.delete("a");
  expect(put("b", 6)).toEqual(["b", "d"]);
  expect(put("c", 30)).toEqual(["c"]);
  expect(put("a", 1)).toEqual(["a"]);
});
