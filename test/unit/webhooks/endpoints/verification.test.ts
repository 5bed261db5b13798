import * as fc from "fast-check";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { drawPingOffsets, PING_SCHEDULE } from "#webhooks/endpoints/verification.ts";

const HOUR_MS = 3_600_000;
const chances = fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), { minLength: 15 });

describe("a verification", () => {
  test("pings from its start until its 72 hours end, and never after", () => {
    fc.assert(
      fc.property(chances, (values) => {
        let next = 0;
        const offsets = drawPingOffsets(() => values[next++ % values.length] ?? 0);
        expect(offsets[0]).toBe(0);
        expect(offsets.at(-1)).toBeLessThanOrEqual(72 * HOUR_MS);
        expect(offsets.at(-1)).toBeGreaterThan(69 * HOUR_MS);
        expect(offsets).toEqual(offsets.toSorted((a, b) => a - b));
        // A receiver that was down for a day and a half is found again within the next half day.
        const gaps = offsets.slice(1).map((offset, index) => offset - (offsets[index] ?? 0));
        expect(Math.max(...gaps)).toBeLessThanOrEqual(14.4 * HOUR_MS);
      }),
    );
  });

  test("is described by its offsets, on Temporal's page and in the documentation", () => {
    const latest = drawPingOffsets(() => 0).slice(1);
    const words = latest.map((ms) =>
      ms < 60_000 ? `${ms / 1_000} s` : ms < HOUR_MS ? `${ms / 60_000} min` : `${ms / HOUR_MS} h`,
    );
    const list = `${words.slice(0, -1).join(", ")} and ${words.at(-1)} after`;
    expect(PING_SCHEDULE).toContain(list);
    expect(readFileSync("docs/endpoints.md", "utf8")).toContain(list);
  });
});
