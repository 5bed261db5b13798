/** Denied targets behave as a Map does, and a million of them fit in 64 MiB. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { DeniedTargets } from "#revocation/denied-targets.ts";

const target = fc.oneof(
  fc.string({ maxLength: 3 }),
  fc.nat(200).map((number) => `crd_${number}`),
);
const command = fc.oneof(
  fc.record({ kind: fc.constant("add" as const), target, until: fc.nat(100) }),
  fc.record({ kind: fc.constant("prune" as const), now: fc.nat(100) }),
);

test("a table answers as a Map", () => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 400 }), (commands) => {
      const table = new DeniedTargets();
      const model = new Map<string, number>();
      for (const each of commands) {
        if (each.kind === "add") {
          table.add(each.target, each.until * 1_000);
          model.set(each.target, Math.max(model.get(each.target) ?? 0, each.until));
        } else {
          table.prune(each.now * 1_000);
          for (const [known, until] of model) {
            if (Math.max(1, until) <= each.now) {
              model.delete(known);
            }
          }
        }
        expect(table.size).toBe(model.size);
      }
      for (const known of model.keys()) {
        expect(table.has(known)).toBe(true);
      }
      expect(table.has("never added")).toBe(false);
    }),
  );
});

test("targets that are denied for ever stay", () => {
  const table = new DeniedTargets();
  table.add("kid", Infinity);
  table.add("kid", 1_000);
  table.prune(1e12);
  expect(table.has("kid")).toBe(true);
});

test.each([
  ["a larger", 500, 3],
  ["a smaller", 3, 500],
  ["an equal", 200, 200],
])("%s table is taken over, with the later end of each target", (_name, count, before) => {
  const [table, other] = [new DeniedTargets(), new DeniedTargets()];
  for (let number = 0; number < before; number += 1) {
    table.add(`own_${number}`, 5_000);
  }
  for (let number = 0; number < count; number += 1) {
    other.add(`other_${number}`, 5_000);
  }
  table.add("both", 9_000);
  other.add("both", 2_000);
  table.absorb(other);
  expect(table.size).toBe(before + count + 1);
  table.prune(4_000);
  expect(table.has("both") && table.has("own_0") && table.has(`other_${count - 1}`)).toBe(true);
  table.prune(6_000);
  expect([table.size, table.has("both")]).toEqual([1, true]);
});

test("a million targets fit in 64 MiB, and none is mistaken for another", () => {
  const table = new DeniedTargets();
  const targets = Array.from({ length: 1_000_000 }, () => randomBytes(16).toString("base64url"));
  for (const each of targets) {
    table.add(each, 60_000);
  }
  expect(table.size).toBe(targets.length);
  expect(table.bytes).toBeLessThanOrEqual(64 * 1_048_576);
  expect(targets.every((each) => table.has(each))).toBe(true);
  // Ids with a common beginning and counted ends are the hardest for a weak hash.
  expect(
    Array.from({ length: 1_000_000 }, (_, index) => `crd_${index}`).filter((each) => table.has(each)),
  ).toEqual([]);
  for (let call = 0; call < 16; call += 1) {
    table.prune(120_000);
  }
  expect(table.size).toBe(0);
});
