import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IdleSet } from "#webhooks/sending/http-idle.ts";
import { cases } from "#test/support/properties.ts";

const MAXIMUM = 5;
const MAXIMUM_PER_KEY = 2;
const operation = fc.oneof(
  fc.record({ kind: fc.constant("add" as const), key: fc.constantFrom("a", "b", "c", "d") }),
  fc.record({ kind: fc.constant("take" as const), key: fc.constantFrom("a", "b", "c", "d") }),
  fc.record({ kind: fc.constant("remove" as const), index: fc.nat(9) }),
);

describe("IdleSet", () => {
  it("agrees with a plain list in every order of operations, and never exceeds its limits", () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
        const set = new IdleSet<{ key: string }>(MAXIMUM, MAXIMUM_PER_KEY);
        let model: { key: string }[] = [];
        for (const step of operations) {
          let got: unknown = null;
          let expected: unknown = null;
          if (step.kind === "add") {
            const item = { key: step.key };
            model.push(item);
            const siblings = model.filter(({ key }) => key === step.key);
            const crowd = siblings.length > MAXIMUM_PER_KEY ? siblings : model;
            expected = siblings.length > MAXIMUM_PER_KEY || model.length > MAXIMUM ? crowd[0] : undefined;
            got = set.add(item);
          } else if (step.kind === "take") {
            expected = model.findLast(({ key }) => key === step.key);
            got = set.take(step.key);
          } else {
            expected = model[step.index] ?? { key: "a" };
            set.remove(expected as { key: string });
            got = expected;
          }
          model = model.filter((other) => other !== expected);
          expect(got).toBe(expected);
          expect(set.size).toBe(model.length);
          expect(set.keys).toBe(new Set(model.map(({ key }) => key)).size);
          expect(model.every((item) => set.has(item))).toBe(true);
        }
        expect(set.clear()).toEqual(model);
        expect([set.size, set.keys]).toEqual([0, 0]);
      }),
      cases(100),
    );
  });
});
