/** JSON that is sent as it was written: a number beyond 2^53, 1.0 and the order of members survive no parsing. */
import { randomUUID } from "node:crypto";

/** A lone half of a surrogate pair has no bytes of its own in UTF-8. */
const LONE_SURROGATE = /\p{Surrogate}/u;

interface Serialisation {
  /** Nobody can have written it before. */
  readonly mark: string;
  readonly texts: string[];
}

/** What is being written; JSON.stringify calls back while it works. */
let current: Serialisation | undefined;

/**
 * A JSON text in the place of a value: `data: new RawJson('{"amount":1.0}')`. The service keeps the bytes of an event's
 * `data` and of an endpoint's `metadata` as they come, and receivers get them so.
 */
export class RawJson {
  readonly text: string;

  /** @throws TypeError when the text is not one JSON value */
  constructor(text: string) {
    try {
      JSON.parse(text);
    } catch (error) {
      throw new TypeError(`not JSON: ${(error as Error).message}`, { cause: error });
    }
    if (LONE_SURROGATE.test(text)) {
      throw new TypeError("not JSON: half a surrogate pair");
    }
    this.text = text;
  }

  /** For JSON.stringify; outside of this library's calls the value, with what parsing makes of it. */
  toJSON(): unknown {
    if (current === undefined) {
      return JSON.parse(this.text) as unknown;
    }
    current.texts.push(this.text);
    return `${current.mark}${current.texts.length - 1}`;
  }
}

/** The value as JSON, with every {@link RawJson} in it as it stands; `indent` as JSON.stringify takes it. */
export function stringifyWithRaw(value: unknown, indent?: number): string {
  const serialisation: Serialisation = { mark: randomUUID(), texts: [] };
  const before = current;
  current = serialisation;
  try {
    const { mark, texts } = serialisation;
    const text = JSON.stringify(value, undefined, indent);
    return texts.length === 0
      ? text
      : text.replaceAll(
          new RegExp(`"${mark}(\\d+)"`, "g"),
          (_whole, index: string) => texts[Number(index)] ?? "",
        );
  } finally {
    current = before;
  }
}

/** Strings, to leave them alone, and numbers. */
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/gs;

/** JSON.parse that keeps a number which a double would change, or spell otherwise, as a {@link RawJson}. @throws as JSON.parse */
export function parseWithRaw(text: string): unknown {
  const mark = randomUUID();
  let found = false;
  const marked = text.replaceAll(STRING_OR_NUMBER, (token) => {
    if (token.startsWith('"') || JSON.stringify(Number(token)) === token) {
      return token;
    }
    found = true;
    return `"${mark}${token}"`;
  });
  if (!found) {
    return JSON.parse(text) as unknown;
  }
  return JSON.parse(marked, (_name, value: unknown) =>
    typeof value === "string" && value.startsWith(mark) ? new RawJson(value.slice(mark.length)) : value,
  ) as unknown;
}
