/** Values in a template cannot escape from their place. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { html } from "../../../src/portal/html.ts";

const UNESCAPED = /[<>"']|&(?!(?:amp|lt|gt|quot|#39);)/;

/** Reads escaped text as a browser would. */
function read(text: string): string {
  return text
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&amp;", "&");
}

describe("a template", () => {
  test("keeps any text as text, never as markup", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const { text: made } = html`<p title="${text}">${text}</p>`;
        const [, attribute = "", content = ""] = /^<p title="([^"]*)">([^<]*)<\/p>$/s.exec(made) ?? [];
        expect(attribute).not.toMatch(UNESCAPED);
        expect(content).not.toMatch(UNESCAPED);
        expect(read(attribute)).toBe(text);
        expect(read(content)).toBe(text);
      }),
    );
  });

  test("escapes text in lists at any depth, and keeps the HTML in them", () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.string())), (lists) => {
        const made = html`${lists.map((list) => [list, html`<br />`])}`.text;
        const pieces = made.split("<br />");
        expect(pieces.map(read)).toEqual([...lists.map((list) => list.join("")), ""]);
        expect(pieces.some((piece) => UNESCAPED.test(piece))).toBe(false);
      }),
    );
  });

  test("does not treat an object that looks like HTML as HTML", () => {
    const forged = JSON.parse('["<script>"]') as string[];
    expect(html`${forged}`.text).toBe("&lt;script&gt;");
  });

  test("omits absent values, and writes numbers, including zero", () => {
    expect(html`${false}${null}${undefined}${""}${0}${1.5}`.text).toBe("01.5");
  });

  test("embeds HTML in HTML without escaping it twice", () => {
    const inner = html`<b>${"<"}</b>`;
    expect(html`<p>${inner}</p>`.text).toBe("<p><b>&lt;</b></p>");
  });
});
