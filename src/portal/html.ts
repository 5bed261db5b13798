/**
 * HTML from tagged templates. Inserted values are escaped, unless they are HTML from another template. Attributes need
 * double quotes. Never insert values into the name of a tag or an attribute, a style or a script.
 *
 * Text that could reorder the text around it (Unicode, UAX 9) is isolated: in an element by `<bdi>`, in titles, options and
 * attributes that are read out by characters. Values of forms and addresses stay as they are.
 */
import { isolable, isolated, needsIsolation } from "#domain/shown-text.ts";

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

/** Where a value stands: in an element, where elements are no markup but people read it, or where programs read it. */
type Place = "element" | "text" | "data";

/** Attributes whose values people read. */
const READ = new Set(["alt", "aria-label", "data-label", "placeholder", "title"]);
const IN_ATTRIBUTE = /([\w-]+)="[^"<>]*$/;
/** Elements that hold text alone; those of SVG know no `bdi`. */
const IN_TEXT_ELEMENT = /<(?:option|text|textarea|title)\b[^<>]*>[^<]*$/;
/** Stands for the values before: they may be no part of a tag's or an attribute's name. */
const VALUE = "value";

/** @param before what precedes the value in its template */
function placeAfter(before: string): Place {
  const [attribute, name = ""] = IN_ATTRIBUTE.exec(before) ?? [];
  if (attribute !== undefined) {
    return READ.has(name) ? "text" : "data";
  }
  const [element] = IN_TEXT_ELEMENT.exec(before) ?? [];
  // What is typed in a text area is sent again.
  return element === undefined ? "element" : element.startsWith("<textarea") ? "data" : "text";
}

function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ESCAPES[character] ?? "");
}

function render(part: Part, place: Place): string {
  if (part === false || part === null || part === undefined) {
    return "";
  }
  if (part instanceof Html) {
    return part.text;
  }
  if (typeof part === "object") {
    return part.map((each) => render(each, place)).join("");
  }
  const text = String(part);
  if (place === "data" || !needsIsolation(text)) {
    return escape(text);
  }
  // Chromium ends an isolate that the text has opened instead of that of the element.
  return place === "element" ? `<bdi>${escape(isolable(text))}</bdi>` : escape(isolated(text));
}

interface Template {
  /** The strings without the source's indentation, which is a third of a page's bytes. */
  readonly strings: readonly string[];
  /** The place after each string. */
  readonly places: readonly Place[];
}

const templates = new WeakMap<TemplateStringsArray, Template>();

function templateOf(given: TemplateStringsArray): Template {
  let found = templates.get(given);
  if (found === undefined) {
    const strings = given.map((string) => string.replaceAll(/\n\s+/g, "\n"));
    const places = strings.map((_, index) => placeAfter(strings.slice(0, index + 1).join(VALUE)));
    found = { strings, places };
    templates.set(given, found);
  }
  return found;
}

/** Renders a template to HTML. */
export function html(given: TemplateStringsArray, ...parts: readonly Part[]): Html {
  const { strings, places } = templateOf(given);
  return new Html(
    strings.reduce(
      (text, string, index) => text + render(parts[index - 1], places[index - 1] ?? "element") + string,
    ),
  );
}
