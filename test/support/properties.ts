/**
 * The number of cases that property tests try. `npm test` tries the stated number; `SIGNET_TEST_PROPERTIES=10` tries
 * ten times as many, and every value where a test samples a range by default.
 */
export const FACTOR = Number(process.env["SIGNET_TEST_PROPERTIES"] ?? 1);

/** True if tests that sample a range try every value instead. */
export const THOROUGH = FACTOR >= 10;

/** Returns fast-check's parameters for this number of cases, multiplied by the setting. */
export function cases(count: number): { readonly numRuns: number } {
  return { numRuns: Math.ceil(count * FACTOR) };
}
