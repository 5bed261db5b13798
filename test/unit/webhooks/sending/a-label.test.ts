/** Labels that begin with xn--: what a resolver may know is accepted, and nothing that a parser rejects. */
import { encode, toASCII } from "node:punycode";
import { array, assert as hold, integer, property, string } from "fast-check";
import { expect, test } from "vitest";
import { isValidALabel } from "#webhooks/sending/url-rules.ts";
import { cases, THOROUGH } from "#test/support/properties.ts";

/** Node 22 rejects invalid labels; Node 24 rejects none, and then this proves nothing. CI runs both. */
function parserTakes(label: string): boolean {
  const url = `https://${label}.example.com/`;
  return URL.canParse(url) && new URL(url).hostname === `${label}.example.com`;
}

test.each([
  ["xn--mnchen-3ya", "münchen"],
  ["xn--bcher-kva", "bücher"],
  ["xn--fsq", "中"],
  ["xn--wgv71a119e", "日本語"],
  ["xn--fiqs8s", "中国"],
  ["xn--p1ai", "рф"],
  ["xn--hxajbheg2az3al", "παράδειγμα"],
  ["xn--mgberp4a5d4ar", "السعودية"],
  ["xn--9dbq2a", "קום"],
  ["xn--11b4c3d", "कॉम"],
  ["xn--i-7iq", "i❤, a registered name"],
  ["xn--ls8h", "an emoji beyond the basic plane"],
  [`xn--${encode("☃")}`, "a symbol"],
  ["xn--mgba3gch31f060k", "نامه‌ای, with a non-joiner"],
  ["xn--10cl1a0b660p", "ශ්‍රී, with a joiner"],
  ["xn--fa-hia", "faß"],
  ["xn--7ug", "a dash"],
])("%s (%s) is valid", (label) => {
  expect(isValidALabel(label)).toBe(true);
  expect(parserTakes(label)).toBe(true);
});

test.each([
  ["xn--", "nothing"],
  ["xn--a", "no punycode"],
  ["xn--a-", "ASCII alone"],
  ["xn--abc-", "ASCII alone"],
  ["xn---", "a hyphen alone"],
  ["xn--99999999", "beyond Unicode"],
  ["xn--0000000000000000000000000000", "an endless integer"],
  ["xn--mnchen-3y", "an integer that ends too early"],
  ["xn--a-_", "an underscore among the digits"],
  [`xn--${encode("ſa")}`, "ſ, which stands for s"],
  [`xn--${encode("Áb")}`, "Á, upper case"],
  [`xn--${encode("אa")}`, "two directions"],
  ["xn--dlbs18q", "a digit that runs against its label"],
  ["xn--ngba60t", "a spacing mark that runs against its label"],
  [`xn--${encode("ﬁ")}`, "a ligature"],
  ["xn--ab-j1t", "a joiner between letters that never join"],
  ["xn--0ug", "a non-joiner alone"],
  ["xn--a-0fb", "an initial mark, or a decomposed character"],
])("%s is invalid (%s)", (label) => {
  expect(isValidALabel(label)).toBe(false);
});

/** Code points whose neighbours differ in script, direction or composition. The rest are long runs of ideographs. */
function isVaried(codePoint: number): boolean {
  return (
    codePoint < 0x31_00 ||
    (codePoint >= 0xa0_00 && codePoint < 0xac_00) ||
    (codePoint >= 0xf9_00 && codePoint <= 0xff_ff)
  );
}

/** Returns the labels that the parser rejects. One URL carries many labels, because each parse is slow. */
function rejectedByParser(labels: readonly string[]): readonly string[] {
  if (labels.length === 0 || parserTakes(labels.join("."))) {
    return [];
  }
  const half = Math.floor(labels.length / 2);
  return half === 0
    ? labels
    : [...rejectedByParser(labels.slice(0, half)), ...rejectedByParser(labels.slice(half))];
}

test("any label that the rule accepts, this Node's parser accepts unchanged", () => {
  const accepted: string[] = [];
  for (let codePoint = 0x80; codePoint < 0x30_000; codePoint += 1) {
    if (THOROUGH || isVaried(codePoint) || codePoint % 61 === 0) {
      const character = String.fromCodePoint(codePoint);
      const labels = [character, `a${character}`, `${character}1`].map((text) => `xn--${encode(text)}`);
      accepted.push(...labels.filter(isValidALabel));
    }
  }
  const surprises: string[] = [];
  for (let at = 0; at < accepted.length; at += 64) {
    surprises.push(...rejectedByParser(accepted.slice(at, at + 64)));
  }
  expect(surprises).toEqual([]);
  expect(accepted.length).toBeGreaterThan(THOROUGH ? 100_000 : 10_000);
});

/** True unless the rule accepts a label that the parser rejects. */
const isStrict = (label: string): boolean => !isValidALabel(label) || parserTakes(label);

test("no text makes the rule throw, or accept what the parser rejects", () => {
  hold(
    property(array(string({ minLength: 1, maxLength: 12, unit: "grapheme" }), { maxLength: 2 }), (parts) => {
      const label = toASCII(parts.join("").toLowerCase()).slice(0, 63);
      return !/^xn--[a-z0-9-]+$/.test(label) || isStrict(label);
    }),
    cases(500),
  );
  const arabic = string({
    unit: integer({ min: 0x5_90, max: 0x7_bf }).map((codePoint) => String.fromCodePoint(codePoint)),
    minLength: 1,
    maxLength: 6,
  });
  hold(
    property(arabic, (text) => isStrict(toASCII(text))),
    cases(4_000),
  );
  hold(
    property(string({ unit: "grapheme-ascii", maxLength: 20 }), (tail) => {
      const label = `xn--${tail.toLowerCase().replaceAll(/[^a-z0-9-]/g, "")}`;
      return label.endsWith("-") || isStrict(label);
    }),
    cases(4_000),
  );
});
