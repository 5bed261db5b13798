/** A secret and its successors, in any order in which processes store them. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type StoredCredential, withAccepted, withSuccessor } from "#lib/client/succession.ts";

const secret = (version: number) => `secret-${version}`;
const successor = (version: number) => ({ secret: secret(version), version });
const presented = (version: number) => ({ clientId: "cl_1", secret: secret(version) });
const highest = ({ current, next }: StoredCredential) => Math.max(current.version ?? 0, next?.version ?? 0);

describe("what is stored", () => {
  test("holds both after a successor came, the presented one as current", () => {
    expect(withSuccessor(undefined, presented(3), successor(4))).toEqual({
      clientId: "cl_1",
      current: { secret: secret(3), version: 3 },
      next: successor(4),
    });
  });

  test("is replaced if it belongs to another client", () => {
    const stored = { clientId: "cl_old", current: successor(9), next: null };
    expect(withSuccessor(stored, presented(1), successor(2))).toMatchObject({
      clientId: "cl_1",
      next: successor(2),
    });
  });

  test("never goes back, whatever the order of writes, and always holds the last accepted secret", () => {
    const step = fc.record({ version: fc.integer({ min: 1, max: 6 }), accepted: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        let stored: StoredCredential = {
          clientId: "cl_1",
          current: { secret: secret(1), version: null },
          next: null,
        };
        for (const { version, accepted } of steps) {
          const before = highest(stored);
          stored = accepted
            ? withAccepted(stored, secret(version))
            : withSuccessor(stored, presented(version), successor(version + 1));
          expect(highest(stored)).toBeGreaterThanOrEqual(before);
          for (const kept of [stored.current, stored.next]) {
            expect(kept === null || kept.version === null || kept.secret === secret(kept.version)).toBe(true);
          }
          expect(stored.next === null || stored.next.version === (stored.current.version ?? 0) + 1).toBe(
            true,
          );
        }
      }),
    );
  });
});
