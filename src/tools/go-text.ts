/** Go source text as gofmt leaves it, for go-models.ts and sdk-go.ts. */
import { capitalized, wrapped } from "./text.ts";

/** A field of a struct. */
export interface Field {
  readonly name: string;
  readonly type: string;
  /** With its backquotes; may be empty. */
  readonly tag: string;
  /** May be empty. */
  readonly doc: string;
}

/** Width of comments. */
const COLUMNS = 120;
const TAB_WIDTH = 4;

/** Words that Go writes in capitals. */
const CAPITALS: ReadonlySet<string> = new Set(
  "id url uri ms dns tls http api jwks dlq rsa ec okp p256 p384 p521 x25519 p50 p95 oauth2".split(" "),
);
/** Words that Go writes in a form of their own. */
const SPELLED: Readonly<Record<string, string>> = { ids: "IDs", oauth2: "OAuth2" };

/** Returns an exported name: `last_error` is LastError, `url` is URL. */
export function goName(text: string): string {
  return text
    .split(/[^A-Za-z0-9]+/)
    .map((word) => {
      return SPELLED[word] ?? (CAPITALS.has(word) ? word.toUpperCase() : capitalized(word));
    })
    .join("");
}

/** Returns a comment in lines of limited width, with a final newline; nothing for an empty text. */
export function goComment(text: string, indentation = ""): string {
  const width = COLUMNS - indentation.length * TAB_WIDTH;
  const lines = text === "" ? [] : wrapped(text, "// ", width);
  return lines.map((line) => `${indentation}${line}\n`).join("");
}

/** Returns a text with a full stop, unless it ends with a mark. */
export function asSentence(text: string): string {
  return text === "" || /[.!?]$/.test(text) ? text : `${text}.`;
}

function pad(texts: readonly string[]): (text: string) => string {
  const width = Math.max(...texts.map((text) => text.length));
  return (text) => text.padEnd(width);
}

/** Returns the lines of fields. Names and types are aligned from one comment to the next. */
export function goFields(fields: readonly Field[]): string {
  const runs: Field[][] = [];
  for (const field of fields) {
    const run = runs.at(-1);
    if (run === undefined || field.doc !== "") {
      runs.push([field]);
    } else {
      run.push(field);
    }
  }
  return runs
    .map((run) => {
      const [name, type] = [pad(run.map((each) => each.name)), pad(run.map((each) => each.type))];
      const lines = run.map(
        (each) => `\t${name(each.name)} ${each.tag === "" ? each.type : `${type(each.type)} ${each.tag}`}\n`,
      );
      return goComment(run[0]?.doc ?? "", "\t") + lines.join("");
    })
    .join("");
}

/** Returns the lines of typed constants. */
export function goValues(values: readonly (readonly [name: string, type: string, value: string])[]): string {
  const [name, type] = [pad(values.map(([each]) => each)), pad(values.map(([, each]) => each))];
  return values
    .map(([each, of, value]) => `\t${name(each)} ${type(of)} = ${JSON.stringify(value)}\n`)
    .join("");
}
