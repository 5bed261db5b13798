import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { createPepper } from "#crypto/pepper.ts";

const [older, newer] = [randomBytes(32), randomBytes(32)];

test("a previous pepper keeps its name and its MACs beside the newest", () => {
  const before = createPepper(older);
  const now = createPepper(newer, [older]);
  expect(now.id).not.toBe(before.id);
  expect(now.macs("secret")).toEqual([
    { keyId: now.id, mac: now.mac("secret") },
    { keyId: before.id, mac: before.mac("secret") },
  ]);
  expect(createPepper(newer).mac("secret")).toEqual(now.mac("secret"));
});
