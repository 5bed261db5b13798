import { expect, test } from "vitest";
import { escapeBeyondJson, escapeControls, isolable, isolated, needsIsolation } from "#domain/shown-text.ts";

const ALL = Array.from({ length: 0x11_0000 }, (_, code) => code)
  .filter((code) => code < 0xd800 || code > 0xdfff)
  .map((code) => String.fromCodePoint(code));
/** As Unicode lists them. */
const REORDERING = ALL.filter((character) => /\p{Bidi_Control}/u.test(character));
const CONTROLS = ALL.filter((character) => /\p{Cc}/u.test(character));

test("every character that reorders text is escaped, and nothing else but controls", () => {
  expect(REORDERING).toHaveLength(12);
  const changed = (escape: (text: string) => string): string[] =>
    ALL.filter((character) => escape(character) !== character);
  expect(changed(escapeControls).toSorted()).toEqual([...CONTROLS, ...REORDERING].toSorted());
  const inJson = CONTROLS.filter((character) => character >= "\u007f");
  expect(changed(escapeBeyondJson).toSorted()).toEqual([...inJson, ...REORDERING].toSorted());
  expect(escapeControls("a\u202eb")).toBe(String.raw`a\u202eb`);
});

test("escaped JSON means the same", () => {
  const value = { [REORDERING.join("")]: CONTROLS.join("") };
  expect(JSON.parse(escapeBeyondJson(JSON.stringify(value)))).toEqual(value);
});

test("text with a reordering character, or written from right to left, is isolated; its isolate cannot be ended from inside", () => {
  expect(REORDERING.every(needsIsolation)).toBe(true);
  for (const script of ["Hebrew", "Arabic", "Syriac", "Thaana", "Nko", "Adlam", "Phoenician"]) {
    const letter = new RegExp(`(?=\\p{Script=${script}})\\p{Letter}`, "u");
    const letters = ALL.filter((character) => letter.test(character));
    expect(letters.length).toBeGreaterThan(10);
    expect(letters.filter((letter) => !needsIsolation(letter))).toEqual([]);
  }
  for (const plain of ["", "abc", "é 12 – „x“", "日本語", "😀"]) {
    expect(isolated(plain)).toBe(plain);
  }
  for (const each of REORDERING) {
    const [inside = "", ...others] = isolated(`a${each}b`).slice(1).split("\u2069");
    expect(others).toEqual([""]);
    expect(inside).toMatch(/^a(?:\\u[0-9a-f]{4}|[\u061c\u200e\u200f])b$/);
    expect(isolable(`a${each}b`)).toBe(inside);
  }
});
