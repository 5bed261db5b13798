/** Templates: what is put into one cannot get out of its place. */
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
  test("holds any text as that text, and nothing of it as markup", () => {
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

  test("escapes text in lists, however deep, and keeps the HTML among it", () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.string())), (lists) => {
        const made = html`${lists.map((list) => [list, html`<br />`])}`.text;
        const pieces = made.split("<br />");
        expect(pieces.map(read)).toEqual([...lists.map((list) => list.join("")), ""]);
        expect(pieces.some((piece) => UNESCAPED.test(piece))).toBe(false);
      }),
    );
  });

  test("does not take an object that looks like HTML for HTML", () => {
    const forged = JSON.parse('["<script>"]') as string[];
    expect(html`${forged}`.text).toBe("&lt;script&gt;");
  });

  test("leaves out what is not there, and writes numbers, zero too", () => {
    expect(html`${false}${null}${undefined}${""}${0}${1.5}`.text).toBe("01.5");
  });

  test("puts HTML into HTML as it is, once", () => {
    const inner = html`<b>${"<"}</b>`;
    expect(html`<p>${inner}</p>`.text).toBe("<p><b>&lt;</b></p>");
  });
});
