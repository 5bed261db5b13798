/** JSON that is sent unchanged: parsing would lose numbers beyond 2^53, 1.0 and the order of members. */
import { randomUUID } from "node:crypto";

/** A lone surrogate has no UTF-8 encoding. */
const LONE_SURROGATE = /\p{Surrogate}/u;

interface Serialisation {
  /** Unique, so that it cannot occur in the input. */
  readonly mark: string;
  readonly texts: string[];
}

/** State of the current serialization; JSON.stringify calls back. */
let current: Serialisation | undefined;

/**
 * A JSON text in place of a value: `data: new RawJson('{"amount":1.0}')`. The service keeps the bytes of an event's
 * `data` and of an endpoint's `metadata`, and receivers get them unchanged.
 */
export class RawJson {
  readonly text: string;

  /** @throws TypeError if the text is not one JSON value */
  constructor(text: string) {
    try {
      JSON.parse(text);
    } catch (error) {
      throw new TypeError(`not JSON: ${(error as Error).message}`, { cause: error });
    }
    if (LONE_SURROGATE.test(text)) {
      throw new TypeError("not JSON: a lone surrogate");
    }
    this.text = text;
  }

  /** For JSON.stringify; outside this library's calls, the parsed value. */
  toJSON(): unknown {
    if (current === undefined) {
      return JSON.parse(this.text) as unknown;
    }
    current.texts.push(this.text);
    return `${current.mark}${current.texts.length - 1}`;
  }
}

/** Returns the value as JSON with every {@link RawJson} unchanged; `indent` as in JSON.stringify. */
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

/** Matches strings, to skip them, and numbers. */
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/gs;

/** JSON.parse that keeps numbers which a double would change or respell as {@link RawJson}. @throws as JSON.parse */
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
