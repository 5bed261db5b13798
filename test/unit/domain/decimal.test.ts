import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compareNumbers, Decimal, type JsonNumber, multipleOf, parseExactJson } from "#domain/decimal.ts";
import { isSameJson } from "#domain/json-equality.ts";
import { cases } from "#test/support/properties.ts";

const read = (text: string): JsonNumber => parseExactJson(text) as JsonNumber;
const same = (left: string, right: string): boolean => isSameJson(read(left), read(right), () => undefined);
const divides = (value: string, divisor: string): boolean => multipleOf(read(divisor))(read(value));

const SEVENS = "7".repeat(100_000);

/** A number in any spelling, with its value as an integer and a power of ten. */
const written = fc
  .record({
    negative: fc.boolean(),
    digits: fc.bigInt({ min: 0n, max: 10n ** 40n }),
    fraction: fc.integer({ min: 0, max: 12 }),
    exponent: fc.integer({ min: -40, max: 40 }),
    hasExponent: fc.boolean(),
  })
  .map(({ negative, digits, fraction, exponent, hasExponent }) => {
    const text = String(digits).padStart(fraction + 1, "0");
    const point = text.length - fraction;
    const power = hasExponent ? exponent : 0;
    return {
      text: `${negative ? "-" : ""}${text.slice(0, point)}${fraction === 0 ? "" : `.${text.slice(point)}`}${
        hasExponent ? `e${exponent}` : ""
      }`,
      // In units of 10^-60.
      units: (negative ? -digits : digits) * 10n ** BigInt(60 - fraction + power),
    };
  });

describe("numbers are the decimals that their texts say:", () => {
  test("the parser keeps each number, as a double only if that prints as the same decimal", () => {
    expect(parseExactJson('{"a":[1.0,1e2,-0,0.1,19.99],"b":"1e400"}')).toEqual({
      a: [1, 100, -0, 0.1, 19.99],
      b: "1e400",
    });
    for (const text of [
      "9007199254740993",
      "1e400",
      "1e-400",
      "-1E+999999",
      SEVENS,
      "0.10000000000000000001",
    ]) {
      expect(read(text)).toMatchObject({ text });
      expect(read(text)).toBeInstanceOf(Decimal);
    }
    expect(parseExactJson(`{"__proto__":1e400,"e":"\\"1e400\\\\","n":[1e400]}`)).toHaveProperty(
      "n.0.text",
      "1e400",
    );
    expect(read(`0e${SEVENS}`)).toBe(0);
  });

  test("text of any form is parsed like JSON.parse does", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 3 }), (text) => {
        expect(parseExactJson(text)).toEqual(JSON.parse(text));
      }),
      cases(100),
    );
  });

  test("order and equality", () => {
    fc.assert(
      fc.property(written, written, (left, right) => {
        const order = left.units < right.units ? -1 : Number(left.units > right.units);
        expect(Math.sign(compareNumbers(read(left.text), read(right.text)))).toBe(order);
        expect(same(left.text, right.text)).toBe(order === 0);
      }),
      cases(300),
    );
    expect(compareNumbers(read(`1e${SEVENS}`), read(`1e${SEVENS.slice(1)}6`))).toBeGreaterThan(0);
    expect(compareNumbers(read("-1e400"), read("-1e401"))).toBeGreaterThan(0);
    expect(same("1e400", "10.0E399")).toBe(true);
    expect(same("9007199254740993", "9007199254740992")).toBe(false);
  });

  test("multiples of any divisor", () => {
    fc.assert(
      fc.property(written, written, fc.bigInt({ min: -50n, max: 50n }), (value, divisor, times) => {
        fc.pre(divisor.units > 0n);
        expect(divides(value.text, divisor.text)).toBe(value.units % divisor.units === 0n);
        expect(divides(`${times * divisor.units}e-60`, divisor.text)).toBe(true);
      }),
      cases(300),
    );
    for (const price of ["0.07", "0.94", "8.69", "19.99", "143.48", "9313.8", "-19.99", "0", SEVENS]) {
      expect({ price, is: divides(price, "0.01") }).toEqual({ price, is: true });
    }
    expect(divides("0.075", "0.01")).toBe(false);
    expect(divides("9007199254740993", "2")).toBe(false);
    expect(divides("1e999999999999999999999", "7e-999999999999999999999")).toBe(false);
    expect(divides("49e999999999999999999999", "7e-999999999999999999999")).toBe(true);
    expect(divides(SEVENS, SEVENS.slice(0, 50_000))).toBe(true);
    expect(divides("1e-400", "1e-400")).toBe(true);
    expect(divides("3", "1e-400")).toBe(true);
    expect(divides(String(2n ** 3_000n), String(2n ** 2_999n))).toBe(true);
    expect(divides(String(2n ** 2_998n), String(2n ** 2_999n))).toBe(false);
  });
});
