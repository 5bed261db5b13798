import { expect, test } from "vitest";
import { healthOf, shownHealth, withResults } from "#domain/endpoint-health.ts";

test.each([
  ["", "healthy"],
  ["1", "healthy"],
  ["00", "healthy"],
  ["0000", "degraded"],
  ["00000", "failing"],
  ["000001", "degraded"],
  ["111011101110", "degraded"],
  ["11111111111111111100", "healthy"],
  ["01010101010101010101", "failing"],
  // Three successes in a row end it, although half of the results are failures.
  ["00100100100100101111", "degraded"],
  ["10101010101010101000", "failing"],
  ["11111111111111111111", "healthy"],
])("results %s mean %s", (results, health) => {
  expect(healthOf(results)).toBe(health);
});

test("the last 20 results are kept", () => {
  expect(withResults("0".repeat(19), "111")).toBe(`${"0".repeat(17)}111`);
  expect(withResults("", "1".repeat(30))).toBe("1".repeat(20));
});

test("the health of an endpoint without attempts, or with another URL, is unknown, not healthy", () => {
  expect(shownHealth("ACTIVE", "healthy", "")).toBe("unknown");
  expect(shownHealth("PENDING", "healthy", "111")).toBe("unknown");
  expect(shownHealth("PENDING", "failing", "000000")).toBe("unknown");
  expect(shownHealth("ACTIVE", "healthy", "1")).toBe("healthy");
  expect(shownHealth("DISABLED", "failing", "000000")).toBe("failing");
});
