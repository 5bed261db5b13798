/**
 * Strict parser for query strings and forms (application/x-www-form-urlencoded). Malformed percent escapes, invalid
 * UTF-8, NUL and repeated names are faults.
 */

export type PairsFault = "malformed" | "repeated";

/** Values by name. */
export type Pairs = { readonly [name: string]: string };

function decode(text: string): string {
  const spaced = text.includes("+") ? text.replaceAll("+", " ") : text;
  return spaced.includes("%") ? decodeURIComponent(spaced) : spaced;
}

/**
 * Parses the pairs of `text`.
 *
 * @returns the pairs, or the name of the first fault
 */
export function readPairs(text: string): Pairs | PairsFault {
  const pairs: Record<string, string> = Object.create(null) as Record<string, string>;
  if (text === "") {
    return pairs;
  }
  for (const pair of text.split("&")) {
    if (pair === "") {
      continue;
    }
    const equals = pair.indexOf("=");
    let name: string;
    let value: string;
    try {
      name = decode(equals === -1 ? pair : pair.slice(0, equals));
      value = equals === -1 ? "" : decode(pair.slice(equals + 1));
    } catch {
      return "malformed";
    }
    if (name.includes("\0") || value.includes("\0")) {
      return "malformed";
    }
    if (name in pairs) {
      return "repeated";
    }
    pairs[name] = value;
  }
  return pairs;
}
