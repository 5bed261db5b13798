/**
 * HTML by tagged templates: whatever is put into one is escaped, unless it is HTML made the same way. Attributes are
 * written in double quotes; nothing of a caller's goes into a tag's or an attribute's name, a style or a script.
 */

/** Text that is HTML already; only {@link html} makes it. */
class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }
}

export type { Html };

/** What a template takes: text, HTML, a list of either; nothing for `false`, `null` and `undefined`. */
export type Part = Html | string | number | false | null | undefined | readonly Part[];

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function render(part: Part): string {
  if (part === false || part === null || part === undefined) {
    return "";
  }
  if (part instanceof Html) {
    return part.text;
  }
  if (typeof part === "object") {
    return part.map(render).join("");
  }
  return String(part).replaceAll(/[&<>"']/g, (character) => ESCAPES[character] ?? "");
}

/** Templates without the indentation that they have in the source: a third of a page's bytes. */
const dense = new WeakMap<TemplateStringsArray, readonly string[]>();

function denseStrings(strings: TemplateStringsArray): readonly string[] {
  let found = dense.get(strings);
  if (found === undefined) {
    found = strings.map((string) => string.replaceAll(/\n\s+/g, "\n"));
    dense.set(strings, found);
  }
  return found;
}

/** A piece of HTML. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(
    denseStrings(strings).reduce((text, string, index) => text + render(parts[index - 1]) + string),
  );
}
