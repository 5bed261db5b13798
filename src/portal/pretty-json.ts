/**
 * Indents JSON text. Keeps numbers and strings as written, because JSON.parse would change 1.0 and 2^60. Only characters
 * that reorder a line or control a terminal become escapes, which mean the same.
 */
import { escapeBeyondJson } from "#domain/shown-text.ts";

const TOKEN = /"(?:[^"\\]|\\.)*"?|[{}[\],:]|[^\s{}[\],:"]+/g;
/** Maximum indentation, in levels, so that nesting cannot make the text much longer. */
const INDENTED_MAX = 16;

function isOpening(token: string): boolean {
  return token === "{" || token === "[";
}

/**
 * Returns valid JSON text with one member per line, and any other text unchanged.
 *
 * @param max length in characters, after which the rest is left out
 */
export function prettyJson(text: string, max: number): string {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  let before = "";
  let formatted = "";
  for (const [token] of text.matchAll(TOKEN)) {
    if (formatted.length > max) {
      break;
    }
    const closing = token === "}" || token === "]";
    depth += closing ? -1 : 0;
    if (closing ? !isOpening(before) : isOpening(before) || before === ",") {
      formatted += `\n${"  ".repeat(Math.min(depth, INDENTED_MAX))}`;
    }
    formatted += token === ":" ? ": " : token;
    depth += isOpening(token) ? 1 : 0;
    before = token;
  }
  return escapeBeyondJson(formatted);
}
