import { expect, test } from "vitest";
import { EXPONENT_MAX, exponentOf, type Point } from "#test/support/growth.ts";

const SIZES = [10, 100, 1_000];

test.each([0, 0.5, 1, 2])("a cost that grows with the power %d has that exponent", (power) => {
  const points = SIZES.map((size): Point => [size, 3 * size ** power]);
  expect(exponentOf(points)).toBeCloseTo(power, 10);
});

test("a fixed part lowers the exponent, and work that is read again for each unit still shows", () => {
  const linear = exponentOf(SIZES.map((size): Point => [size, 20 + size]));
  expect(linear).toBeLessThan(1);
  expect(exponentOf(SIZES.map((size): Point => [size, 20 + size ** 2]))).toBeGreaterThan(EXPONENT_MAX.linear);
  expect(exponentOf(SIZES.map((size): Point => [size, 200 + size]))).toBeGreaterThan(EXPONENT_MAX.flat);
});
