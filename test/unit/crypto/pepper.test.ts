import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { Pepper } from "#crypto/pepper.ts";

const [older, newer] = [randomBytes(32), randomBytes(32)];

test("a previous pepper keeps its name and its MACs beside the newest", () => {
  const before = new Pepper(older);
  const now = new Pepper(newer, [older]);
  expect(now.id).not.toBe(before.id);
  expect(now.macs("secret")).toEqual([
    { keyId: now.id, mac: now.mac("secret") },
    { keyId: before.id, mac: before.mac("secret") },
  ]);
  expect(new Pepper(newer).mac("secret")).toEqual(now.mac("secret"));
});
