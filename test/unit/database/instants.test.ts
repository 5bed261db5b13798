/** Instants are parsed as pg parses them, in every format that PostgreSQL writes. */
import { assert, constantFrom, integer, property, tuple } from "fast-check";
import { types } from "pg";
import { expect, test } from "vitest";
import { cases } from "#test/support/properties.ts";

const plain = types.getTypeParser(types.builtins.TIMESTAMPTZ) as (text: string) => unknown;
const { createInstantParser } = await import("#database/instants.ts");
const parse = createInstantParser();

const pad = (value: number, width = 2): string => String(value).padStart(width, "0");
const fractions = tuple(integer({ min: 0, max: 999_999 }), integer({ min: 0, max: 6 })).map(
  ([value, digits]) => (digits === 0 ? "" : `.${pad(value, 6).slice(0, digits)}`),
);
const instants = tuple(
  integer({ min: 1, max: 9_999 }),
  integer({ min: 1, max: 12 }),
  integer({ min: 1, max: 28 }),
  integer({ min: 0, max: 86_399 }),
  fractions,
  constantFrom("+00", "+00", "+00", "+01", "-03:30", "+05:45"),
).map(([year, month, day, second, fraction, zone]) => {
  const time = [Math.floor(second / 3_600), Math.floor(second / 60) % 60, second % 60].map((part) =>
    pad(part),
  );
  return `${pad(year, 4)}-${pad(month)}-${pad(day)} ${time.join(":")}${fraction}${zone}`;
});

test("any instant", () => {
  assert(
    property(instants, (text) => {
      expect(parse(text)).toEqual(plain(text));
    }),
    cases(500),
  );
});

test.each([
  "infinity",
  "-infinity",
  "0043-03-15 12:00:00+00 BC",
  "10889-08-02 05:31:50.655+00",
  "2026-11-20 14:03:07+00",
])("%s", (text) => {
  expect(parse(text)).toEqual(plain(text));
});
