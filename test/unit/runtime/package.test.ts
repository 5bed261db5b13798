import { expect, test } from "vitest";
import { whyNodeIsTooOld } from "#runtime/package.ts";

test.each([
  ["20.19.0", "Node >=22.19 is needed; this is 20.19.0"],
  ["22.18.1", "Node >=22.19 is needed; this is 22.18.1"],
  ["22.19.0", undefined],
  ["24.1.0", undefined],
])("Node %s: %s", (running, why) => {
  expect(whyNodeIsTooOld(running, ">=22.19")).toBe(why);
});

test("the Node of these tests is new enough for package.json", () => {
  expect(whyNodeIsTooOld(process.versions.node)).toBeUndefined();
});
