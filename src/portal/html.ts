/**
 * HTML from tagged templates. Inserted values are escaped, unless they are HTML from another template. Attributes need
 * double quotes. Never insert values into the name of a tag or an attribute, a style or a script.
 */

/** Escaped HTML; only {@link html} creates it. */
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

/** A value for a template: text, HTML or a list of them; `false`, `null` and `undefined` render nothing. */
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

/** Cached templates without the source's indentation, which is a third of a page's bytes. */
const dense = new WeakMap<TemplateStringsArray, readonly string[]>();

function denseStrings(strings: TemplateStringsArray): readonly string[] {
  let found = dense.get(strings);
  if (found === undefined) {
    found = strings.map((string) => string.replaceAll(/\n\s+/g, "\n"));
    dense.set(strings, found);
  }
  return found;
}

/** Renders a template to HTML. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(
    denseStrings(strings).reduce((text, string, index) => text + render(parts[index - 1]) + string),
  );
}
