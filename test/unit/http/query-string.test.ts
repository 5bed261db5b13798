import * as fc from "fast-check";
import { parseQueryString } from "#http/plugins/request-hygiene.ts";
import { expect, test } from "vitest";
import { readPairs } from "#http/query-string.ts";

test("the parser reads what URLSearchParams writes", () => {
  const text = fc.string({ unit: "grapheme" }).filter((value) => !value.includes("\0"));
  fc.assert(
    fc.property(fc.dictionary(text, text), (pairs) => {
      expect({ ...(readPairs(new URLSearchParams(pairs).toString()) as object) }).toEqual({ ...pairs });
    }),
  );
});

test.each(["a=%", "a=%2", "a=%zz", "a=%ff", "a=%c3%28", "a=%ed%a0%80", "%=1", "a=%00", "%00=1"])(
  "%s is malformed",
  (text) => {
    expect(readPairs(text)).toBe("malformed");
  },
);

test.each(["a=1&a=2", "a=1&%61=2", "a&a", "a=1&b=2&a=1", "__proto__=1&__proto__=2"])(
  "%s repeats a name",
  (text) => {
    expect(readPairs(text)).toBe("repeated");
  },
);

test("names of Object.prototype are ordinary names", () => {
  expect(readPairs("toString=1")).toEqual({ toString: "1" });
});

test("a name without a value has an empty one, an empty pair is ignored", () => {
  expect({ ...(readPairs("&a&&b=&") as object) }).toEqual({ a: "", b: "" });
  expect({ ...(readPairs("") as object) }).toEqual({});
});

test("a plus sign is a space, an escaped plus is itself", () => {
  expect({ ...(readPairs("a=b+c%2Bd") as object) }).toEqual({ a: "b c+d" });
});

test.each([
  ["from=2026-11-01T00:00:00+01:00", "2026-11-01T00:00:00+01:00"],
  ["from=2026-11-01T00%3A00%3A00.5+01%3A00&to=x", "2026-11-01T00:00:00.5+01:00"],
  ["from=2026-11-01T00:00:00%2B01:00", "2026-11-01T00:00:00+01:00"],
  ["from=2026-11-01T00:00:00+a", "2026-11-01T00:00:00 a"],
  ["from=a+b", "a b"],
])("the sign of a time's offset need not be escaped: %s", (text, value) => {
  expect(parseQueryString(text)["from"]).toBe(value);
});
