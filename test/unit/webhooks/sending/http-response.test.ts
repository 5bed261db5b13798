import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { responseText, requestedWaitMs } from "#webhooks/sending/http-response.ts";

describe("responseText", () => {
  it("returns well-formed text without U+0000 of at most 4 KiB, for any bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 4096, size: "max" }), fc.boolean(), (bytes, truncated) => {
        const text = responseText(Buffer.from(bytes), truncated) ?? "";
        expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4096);
        expect(/\0|[\ud800-\udfff]/u.test(text)).toBe(false);
      }),
    );
  });

  it("returns valid text unchanged", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", minLength: 1, maxLength: 200 }), (text) => {
        fc.pre(!text.includes("\0"));
        expect(responseText(Buffer.from(text), false)).toBe(text);
      }),
    );
  });

  it("omits a character that the limit cuts in half, and marks one that the receiver cut", () => {
    const half = Buffer.from("a✓").subarray(0, 3);
    expect(responseText(half, true)).toBe("a");
    expect(responseText(half, false)).toBe("a\ufffd");
  });

  it("keeps a byte order mark, as received", () => {
    expect(responseText(Buffer.from("\ufeffx"), false)).toBe("\ufeffx");
  });
});

describe("requestedWaitMs", () => {
  const now = Date.UTC(2026, 10, 20, 12, 0, 0);

  it.each([
    ["0", 0],
    ["120", 120_000],
    [" 5 ", 5_000],
    ["99999999", 604_800_000],
    ["99999999999", 604_800_000],
    ["9".repeat(400), 604_800_000],
    ["00000000000000000000120", 120_000],
    ["Fri, 20 Nov 2026 12:01:30 GMT", 90_000],
    ["Fri, 20 Nov 2026 11:00:00 GMT", 0],
    ["Fri, 20 Nov 2099 11:00:00 GMT", 604_800_000],
    ["Friday, 20-Nov-26 12:01:30 GMT", 90_000],
    ["Saturday, 21-Nov-26 12:00:00 GMT", 86_400_000],
    ["Wednesday, 20-Nov-76 11:59:00 GMT", 604_800_000],
    ["Friday, 20-Nov-76 12:01:00 GMT", 0],
    ["Fri Nov 20 12:01:30 2026", 90_000],
    ["Tue Dec  1 00:00:00 2026", 604_800_000],
    ["Sun Nov 22 00:00:60 2026", 129_659_000],
  ])("understands %j", (header, wait) => {
    expect(requestedWaitMs(header, now)).toBe(wait);
  });

  it.each([
    "",
    "-1",
    "1.5",
    "1e3",
    "0x10",
    "soon",
    "2026-11-20T12:01:00Z",
    "Fri, 99 Nov 2026 12:01:30 GMT",
    "120, 60",
    "Friday, 20 Nov 2026 12:01:30 GMT",
    "Fri, 20-Nov-26 12:01:30 GMT",
    "Fri Nov 20 12:01:30 2026 GMT",
    "Fri, 20 Nov 2026 12:01:30 +0100",
    "Fri, 20 Nov 2026 25:01:30 GMT",
  ])("ignores %j", (header) => {
    expect(requestedWaitMs(header, now)).toBeNull();
  });

  it("ignores a missing or repeated header", () => {
    expect(requestedWaitMs(undefined, now)).toBeNull();
    expect(requestedWaitMs(["5", "6"], now)).toBeNull();
  });
});
