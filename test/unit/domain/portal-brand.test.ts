import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  accentProblem,
  contrast,
  isSupport,
  logoType,
  onAccent,
  readableAccent,
} from "#domain/portal-brand.ts";

const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const WEBP = Buffer.from("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==", "base64");
const colours = fc
  .integer({ min: 0, max: 0xff_ff_ff })
  .map((number) => `#${number.toString(16).padStart(6, "0")}`);

describe("contrast", () => {
  // https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio
  test.each([
    ["#000000", "#ffffff", 21],
    ["#777777", "#ffffff", 4.48],
    ["#ffff00", "#ffffff", 1.07],
  ])("of %s and %s is %d:1", (one, other, ratio) => {
    expect(contrast(one, other)).toBeCloseTo(ratio, 2);
    expect(contrast(other, one)).toBeCloseTo(ratio, 2);
  });

  test("is enough after every adjustment, on light and dark pages and on buttons", () => {
    fc.assert(
      fc.property(colours, fc.constantFrom("light", "dark"), (colour, scheme) => {
        const readable = readableAccent(colour, scheme);
        expect(accentProblem(readable, scheme)).toBeUndefined();
        expect(contrast(readable, onAccent(readable))).toBeGreaterThanOrEqual(4.5);
      }),
    );
  });

  test("that is too low is named with the nearest colour that has enough", () => {
    expect(accentProblem("#ffcc00", "light")).toMatch(
      /^has a contrast of 1\.4:1 to the light pages, and text needs 4\.5:1; the nearest such colour is #[0-9a-f]{6}$/,
    );
    expect(accentProblem("#2450c0", "light")).toBeUndefined();
  });
});

describe("a logo", () => {
  test("is a complete PNG or WebP by its bytes", () => {
    expect(logoType(PNG)).toBe("image/png");
    expect(logoType(WEBP)).toBe("image/webp");
  });

  test.each([
    ["nothing", Buffer.alloc(0)],
    ["an SVG", Buffer.from("<svg xmlns='http://www.w3.org/2000/svg'/>")],
    ["a PNG with something after its end", Buffer.concat([PNG, Buffer.from("<script>")])],
    ["a WebP with something after its end", Buffer.concat([WEBP, Buffer.from("<script>")])],
    ["the beginning of a PNG", PNG.subarray(0, 20)],
    ["a GIF", Buffer.from("GIF89a")],
  ])("is not %s", (_what, bytes) => {
    expect(logoType(bytes)).toBeUndefined();
  });
});

test.each([
  ["help@example.com", true],
  ["https://example.com/help", true],
  ["http://example.com/help", false],
  ["javascript:alert(1)", false],
  ["help", false],
  ['"><script>@example.com', false],
])("%s is a support address: %s", (text, valid) => {
  expect(isSupport(text)).toBe(valid);
});
