import * as fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalJson, type CanonicalValue, isCanonical } from "#compliance/canonical-json.ts";

const value = fc.letrec<{ value: CanonicalValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.string({ unit: "grapheme" }),
    fc.maxSafeInteger().map((number) => (Object.is(number, -0) ? 0 : number)),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value")),
    fc.dictionary(fc.string(), tie("value")),
  ),
})).value;

/** Returns the same value with its members in reverse order. */
function reversed(value: CanonicalValue): CanonicalValue {
  return JSON.parse(JSON.stringify(value), (_name, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).toReversed())
      : member,
  ) as CanonicalValue;
}

test("a value has one canonical form, whatever the order of its members, and parses back to the value", () => {
  fc.assert(
    fc.property(value, (value) => {
      const text = canonicalJson(value);
      expect(canonicalJson(reversed(value))).toBe(text);
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

test("members are sorted by their UTF-16 code units, without white space (RFC 8785 section 3.2.3)", () => {
  expect(canonicalJson({ "\u20ac": 1, "\r": 2, "1": [true, null], "\u{1f600}": "\u0080" })).toBe(
    '{"\\r":2,"1":[true,null],"\u20ac":1,"\u{1f600}":"\u0080"}',
  );
});

test.each([0.5, Number.NaN, Infinity, 2 ** 53])("%d has no canonical form", (number) => {
  expect(() => canonicalJson({ number })).toThrow(TypeError);
});

test("only the canonical form of a text is accepted as canonical", () => {
  fc.assert(
    fc.property(value, (value) => {
      const text = canonicalJson(value);
      const read = JSON.parse(text) as CanonicalValue;
      expect(isCanonical(text, read)).toBe(true);
      expect(isCanonical(` ${text}`, read)).toBe(false);
    }),
  );
  for (const text of [
    '{"b":1,"a":2}',
    '{"a": 1}',
    '{"a":1,"a":1}',
    '["\\u0061"]',
    "1.0",
    "1e3",
    '{"2":1,"10":1}',
  ]) {
    expect({ text, canonical: isCanonicalText(text) }).toEqual({ text, canonical: false });
  }
  expect(isCanonicalText('{"10":1,"2":1}')).toBe(true);
});

function isCanonicalText(text: string): boolean {
  return isCanonical(text, JSON.parse(text) as CanonicalValue);
}
