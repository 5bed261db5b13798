/** Values in a template cannot escape from their place. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isolable } from "#domain/shown-text.ts";
import { html } from "#portal/html.ts";

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
        const { text: made } = html`<p data-text="${text}">${text}</p>`;
        const [, attribute = "", content = ""] =
          /^<p data-text="([^"]*)">(?:<bdi>)?([^<]*)(?:<\/bdi>)?<\/p>$/s.exec(made) ?? [];
        expect(attribute).not.toMatch(UNESCAPED);
        expect(content).not.toMatch(UNESCAPED);
        expect(read(attribute)).toBe(text);
        expect(read(content)).toBe(isolable(text));
      }),
    );
  });

  test("escapes text in lists at any depth, and keeps the HTML in them", () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.string())), (lists) => {
        const made = html`${lists.map((list) => [list, html`<br />`])}`.text;
        const pieces = made.split("<br />");
        expect(pieces.map((piece) => read(piece.replaceAll(/<\/?bdi>/g, "")))).toEqual([
          ...lists.map((list) => isolable(list.join(""))),
          "",
        ]);
        expect(pieces.some((piece) => UNESCAPED.test(piece.replaceAll(/<\/?bdi>/g, "")))).toBe(false);
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

  test.each(["a\u202eb", "a\u2067b", "\u2069a", "a\u200f", "שלום", "سلام 12"])(
    "isolates %j wherever people read it, and leaves it unchanged for programs",
    (text) => {
      const shown = text.replaceAll(
        /[\u202a-\u202e\u2066-\u2069]/g,
        (each) => `\\u${each.charCodeAt(0).toString(16)}`,
      );
      const { text: page } = html`<h1 class="${text}">Tenant ${text} on hold</h1>`;
      expect(page).toBe(`<h1 class="${text}">Tenant <bdi>${shown}</bdi> on hold</h1>`);
      expect(html`<p>${[text, html`<b>${text}</b>`]}</p>`.text).toBe(
        `<p><bdi>${shown}</bdi><b><bdi>${shown}</bdi></b></p>`,
      );
      for (const { text: made } of [
        html`<title>${text} · Signet</title>`,
        html`<option value="x" ${html`selected`}>${text} · Signet</option>`,
        html`<a href="?q=" title="${text} · Signet"></a>`,
        html`<input value="" aria-label="${text} · Signet" />`,
      ]) {
        expect(made).toContain(`\u2068${shown}\u2069 · Signet`);
        expect(made).not.toContain("<bdi>");
      }
      for (const { text: made } of [
        html`<textarea rows="2">${text}</textarea>`,
        html`<input name="a" value="${text}" />`,
        html`data-a="${text}"`,
      ]) {
        expect(made).toContain(text);
        expect(made).not.toMatch(/<bdi>|\u2068/);
      }
    },
  );
});
