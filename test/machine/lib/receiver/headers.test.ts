/** The time that reading a hostile sender's headers takes. */
import { expect, it } from "vitest";
import { VerificationError } from "#lib/receiver/errors.ts";
import { readSignedHeaders } from "#lib/receiver/headers.ts";
import { delivery } from "#test/support/library-delivery.ts";

const SIGNED = delivery().headers;

/** The minimum of several rounds: other load makes a round longer, never shorter. */
function leastMs(headers: Record<string, string | string[]>): number {
  let least = Infinity;
  for (let round = 0; round < 15; round += 1) {
    const from = performance.now();
    try {
      readSignedHeaders(headers, "Service");
    } catch (error) {
      if (!(error instanceof VerificationError)) {
        throw error;
      }
    }
    least = Math.min(least, performance.now() - from);
  }
  return least;
}

const hostile: readonly (readonly [string, (size: number) => Record<string, string | string[]>])[] = [
  ["spaces", (size) => ({ ...SIGNED, "webhook-signature": " ".repeat(size) })],
  ["signatures", (size) => ({ ...SIGNED, "webhook-signature": "v1,A ".repeat(size / 5) })],
  ["other versions", (size) => ({ ...SIGNED, "webhook-signature": `v${"9".repeat(size)}` })],
  ["digits", (size) => ({ ...SIGNED, "x-service-timestamp": "1".repeat(size) })],
  ["letters of an id", (size) => ({ ...SIGNED, "webhook-id": `${"a".repeat(size)}.` })],
  ["hexadecimal digits", (size) => ({ ...SIGNED, "x-service-signature-256": `sha256=${"a".repeat(size)}` })],
  ["repetitions", (size) => ({ ...SIGNED, "webhook-id": Array.from({ length: size / 10 }, () => "evt_1") })],
];

it.each(hostile)("takes linear time for a megabyte of %s", (_name, headers) => {
  // Backtracking would take 4,096 times as long for 64 times the input: minutes instead of milliseconds.
  expect(leastMs(headers(1_048_576))).toBeLessThan(200);
});
