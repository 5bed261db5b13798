import * as fc from "fast-check";
import { expect, test } from "vitest";
import { prettyJson } from "#portal/pretty-json.ts";

test("indents objects and lists like JSON.stringify", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
      const text = JSON.stringify(value);
      expect(prettyJson(text, Number.POSITIVE_INFINITY)).toBe(JSON.stringify(value, undefined, 2));
    }),
  );
});

test("keeps numbers and strings as written", () => {
  const text = String.raw`{ "a":1.0, "b" :[1152921504606846977,-0.50e3],"c":"\u0061 {,\"" }`;
  expect(prettyJson(text, 1_000)).toBe(
    String.raw`{
  "a": 1.0,
  "b": [
    1152921504606846977,
    -0.50e3
  ],
  "c": "\u0061 {,\""
}`,
  );
});

test("leaves other text unchanged, and ends after the given length", () => {
  expect(prettyJson("<b>no JSON</b>", 100)).toBe("<b>no JSON</b>");
  const nested = `${"[".repeat(5_000)}${"]".repeat(5_000)}`;
  expect(prettyJson(nested, 1_000).length).toBeLessThan(1_100);
});

test("a text in the data cannot reorder its line: it becomes an escape that means the same", () => {
  const value = { "\u202ename": "a\u2067b" };
  const shown = prettyJson(JSON.stringify(value), 1_000);
  expect(shown).toBe(String.raw`{
  "\u202ename": "a\u2067b"
}`);
  expect(JSON.parse(shown)).toEqual(value);
});
