import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  firstDay,
  ID_PATTERN,
  ID_PREFIXES,
  idDay,
  type IdNoun,
  idPattern,
  idTimeMs,
  isId,
  newId,
} from "#domain/ids.ts";

const NOUNS = Object.keys(ID_PREFIXES) as IdNoun[];
const noun = fc.constantFrom(...NOUNS);
/** Up to the year 9999, after which ISO dates change their form. */
const time = fc.integer({ min: 0, max: 253_402_300_799_999 });

test("an id has its noun's prefix and 24 characters of the alphabet, at most 28 in total", () => {
  fc.assert(
    fc.property(noun, time, (name, ms) => {
      const id = newId(name, ms, randomBytes);
      expect(id).toMatch(new RegExp(ID_PATTERN));
      expect(id).toMatch(new RegExp(idPattern(name)));
      expect(id.length).toBeLessThanOrEqual(28);
      expect(isId(id, name)).toBe(true);
    }),
  );
});

test("ids of later milliseconds sort after earlier ones, as text", () => {
  fc.assert(
    fc.property(noun, time, time, (name, left, right) => {
      fc.pre(left !== right);
      const [earlier, later] = [Math.min(left, right), Math.max(left, right)];
      expect(newId(name, earlier, randomBytes) < newId(name, later, randomBytes)).toBe(true);
    }),
  );
});

test("the time and the UTC day can be read from an id", () => {
  fc.assert(
    fc.property(noun, time, (name, ms) => {
      const id = newId(name, ms, randomBytes);
      expect(idTimeMs(id)).toBe(ms);
      expect(idDay(id)).toBe(new Date(ms).toISOString().slice(0, 10));
    }),
  );
});

test("the first day of ids is that of the earliest", () => {
  fc.assert(
    fc.property(fc.array(time, { minLength: 1, maxLength: 20 }), (times) => {
      const days = times.map((ms) => new Date(ms).toISOString().slice(0, 10)).toSorted();
      expect(firstDay(times.map((ms) => newId("delivery", ms, randomBytes)))).toBe(days[0]);
    }),
  );
});

test("all 72 random bits reach the id", () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 9, maxLength: 9 }),
      fc.integer({ min: 0, max: 71 }),
      (bytes, bit) => {
        const flipped = Uint8Array.from(bytes);
        flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        expect(newId("event", 0, () => bytes)).not.toBe(newId("event", 0, () => flipped));
      },
    ),
  );
});

test.each([
  "",
  "ten_",
  "ten_06gzkqfw1vef5z17bwfnzgn",
  "ten_06gzkqfw1vef5z17bwfnzgncc",
  "TEN_06gzkqfw1vef5z17bwfnzgnc",
  "ten_06GZKQFW1VEF5Z17BWFNZGNC",
  "ten_06gzkqfw1vef5z17bwfnzgni",
  "ten_06gzkqfw1vef5z17bwfnzgn\0",
  "ten_06gzkqfw1vef5z17bwfnzgnc\n",
  " ten_06gzkqfw1vef5z17bwfnzgnc",
])("%j is not an id", (text) => {
  expect(isId(text)).toBe(false);
});

test("an id of one noun is not an id of another", () => {
  const id = newId("tenant", 0, randomBytes);
  expect(isId(id, "tenant")).toBe(true);
  expect(isId(id, "endpoint")).toBe(false);
});
