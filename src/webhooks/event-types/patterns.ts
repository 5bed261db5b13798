/**
 * Regular expressions of schemas. They are written in ECMA 262's language with the flag `u`, as the draft recommends,
 * and run by RE2 in linear time. This module translates what the two read differently.
 */
import { RE2JS } from "re2js";
import { complement, type Ranges, rangesOf } from "./unicode-classes.ts";

/** Maximum instructions of a compiled expression. */
const PROGRAM_MAX = 1_000;
/** Maximum characters of an expression in RE2's language, in which a class of Unicode is a list of ranges. */
const TRANSLATED_MAX = 32_768;
/** Maximum number of classes of Unicode in one schema whose code points are searched for, in milliseconds each. */
const SEARCHED_MAX = 10;
/** Instructions per character that count as one step. */
const INSTRUCTIONS_PER_STEP = 32;
/** Steps of any match. */
const MATCH_STEPS = 16;

/** A compiled expression. */
export interface Pattern {
  readonly source: string;
  /** Whether it matches a part of the text. @param spend called with the number of steps; may throw */
  readonly test: (text: string, spend: (steps: number) => void) => boolean;
}

/** Says why an expression cannot be used. */
export class PatternProblem extends Error {}

/** White space of ECMA 262 that RE2's `\s` lacks. */
const MORE_SPACE = String.raw`\x{b}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`;
const NO_SPACE = String.raw`\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`;
const NO_LINE_END = String.raw`[^\n\r\x{2028}\x{2029}]`;
/** RE2's own flag with which `.` matches every character. */
const DOT_ALL = /\(\?[imU]*s[imsU]*[-:)]/;

function classText(ranges: Ranges): string {
  return ranges
    .map(([first, last]) => {
      const from = `\\x{${first.toString(16)}}`;
      return first === last ? from : `${from}-\\x{${last.toString(16)}}`;
    })
    .join("");
}

interface Token {
  /** Matches at the current place. */
  readonly at: RegExp;
  /** Returns RE2's spelling. */
  readonly translate: (found: RegExpExecArray, inClass: boolean, searched: Set<string>) => string;
}

function inBrackets(members: string, inClass: boolean): string {
  return inClass ? members : `[${members}]`;
}

function refused(why: string): () => never {
  return () => {
    throw new PatternProblem(why);
  };
}

const unicodeClass: Token["translate"] = ([text, letter, name = ""], inClass, searched) => {
  // RE2 knows the short names of general categories itself.
  if (/^[A-Z][a-z]?$/.test(name)) {
    return text;
  }
  if (searched.add(name).size > SEARCHED_MAX) {
    throw new PatternProblem(
      `must use at most ${SEARCHED_MAX} long names of classes of Unicode in one schema`,
    );
  }
  const ranges = rangesOf(name);
  if (ranges === undefined) {
    return text;
  }
  const members = classText(letter === "p" ? ranges : complement(ranges));
  // An empty class matches nothing: a member that no text of an event has.
  return inBrackets(members === "" ? String.raw`\x{d800}` : members, inClass);
};

/** What both languages have, but read differently. Anything else is passed on. */
const TOKENS: readonly Token[] = [
  { at: /\\([pP])\{([^}]*)\}/y, translate: unicodeClass },
  { at: /\\s/y, translate: (_found, inClass) => inBrackets(String.raw`${MORE_SPACE}\s`, inClass) },
  { at: /\\S/y, translate: (_found, inClass) => inBrackets(NO_SPACE, inClass) },
  {
    at: /\\u(d[89ab][\da-f]{2})\\u(d[c-f][\da-f]{2})/iy,
    translate: ([, high = "", low = ""]) => {
      const pair = String.fromCharCode(Number.parseInt(high, 16), Number.parseInt(low, 16));
      return `\\x{${(pair.codePointAt(0) ?? 0).toString(16)}}`;
    },
  },
  { at: /\\u(?:\{([\da-f]+)\}|([\da-f]{4}))/iy, translate: ([, braced, four]) => `\\x{${braced ?? four}}` },
  {
    at: /\\c([a-z])/iy,
    translate: ([, letter = ""]) => `\\x{${(letter.charCodeAt(0) % 32).toString(16)}}`,
  },
  { at: /\\0(?!\d)/y, translate: () => String.raw`\x{0}` },
  { at: /\\b/y, translate: ([text], inClass) => (inClass ? String.raw`\x{8}` : text) },
  {
    at: /\\(?:[1-9]|k<)/y,
    translate: ([text], inClass) =>
      inClass ? text : refused("must not have a back-reference, which cannot run in linear time")(),
  },
  { at: /\\[^]/uy, translate: ([text]) => text },
  {
    at: /\(\?<?[=!]/y,
    translate: ([text], inClass) =>
      inClass ? text : refused("must not look ahead or behind, which cannot run in linear time")(),
  },
  // The names of groups are not needed, and RE2 knows fewer of them.
  { at: /\(\?<[^>=!]*>/y, translate: ([text], inClass) => (inClass ? text : "(?:") },
  { at: /\[\^\]/y, translate: ([text], inClass) => (inClass ? text : String.raw`[\x{0}-\x{10ffff}]`) },
  { at: /\[\]/y, translate: ([text], inClass) => (inClass ? text : String.raw`[^\x{0}-\x{10ffff}]`) },
];

interface Place {
  readonly index: number;
  readonly inClass: boolean;
}

function tokenAt(
  source: string,
  { index, inClass }: Place,
  searched: Set<string>,
): { text: string; length: number } {
  for (const { at, translate } of TOKENS) {
    at.lastIndex = index;
    const found = at.exec(source);
    if (found !== null) {
      return { text: translate(found, inClass, searched), length: found[0].length };
    }
  }
  return { text: source.charAt(index), length: 1 };
}

/** Returns an expression in RE2's language. @throws PatternProblem */
function translated(source: string, searched: Set<string>): string {
  const dot = DOT_ALL.test(source) ? "." : NO_LINE_END;
  let result = "";
  let inClass = false;
  for (let index = 0; index < source.length;) {
    const { text, length } = tokenAt(source, { index, inClass }, searched);
    if (length === 1 && text === "[" && !inClass) {
      inClass = true;
    } else if (length === 1 && text === "]") {
      inClass = false;
    }
    result += text === "." && length === 1 && !inClass ? dot : text;
    index += length;
    if (result.length > TRANSLATED_MAX) {
      throw new PatternProblem("must have fewer classes of Unicode");
    }
  }
  return result;
}

/** Returns RE2's reason. @see RE2JSSyntaxException */
function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message.replace(/^error parsing regexp: /, "") : "invalid";
  const unknown = /^invalid character class range: `\\[pP]\{?(.+?)\}?`$/.exec(text);
  if (unknown !== null) {
    return `must name a class of Unicode: ${unknown[1]} is unknown`;
  }
  return text.startsWith("invalid repeat count")
    ? "must not repeat a part more than 1,000 times"
    : `must be a regular expression: ${text}`;
}

/** Returns the expression as RE2 runs it. @throws PatternProblem */
function compiled(source: string, searched: Set<string>): RE2JS {
  const text = translated(source, searched);
  try {
    return RE2JS.compile(text);
  } catch (error) {
    throw new PatternProblem(reasonOf(error));
  }
}

function toPattern(source: string, expression: RE2JS): Pattern {
  const size = expression.programSize();
  return {
    source,
    test: (text, spend) => {
      // Linear time can still be slow: for each character, all instructions may run, at about 10 ns each.
      spend(
        MATCH_STEPS * (1 + (text.length >> 6)) + Math.floor((size * text.length) / INSTRUCTIONS_PER_STEP),
      );
      return expression.test(text);
    },
  };
}

/**
 * Compiles an expression of a new schema.
 *
 * @param searched the classes of Unicode of the same schema, to which those of this expression are added
 * @throws PatternProblem
 */
export function newPattern(source: string, searched: Set<string>): Pattern {
  const expression = compiled(source, searched);
  const size = expression.programSize();
  if (size > PROGRAM_MAX) {
    throw new PatternProblem(
      `must be smaller: it compiles to ${size.toLocaleString("en")} instructions, of at most ${PROGRAM_MAX.toLocaleString("en")}`,
    );
  }
  return toPattern(source, expression);
}

/** Compiles an expression of a stored schema, which may use what earlier versions accepted. */
export function storedPattern(source: string): Pattern {
  try {
    return toPattern(source, compiled(source, new Set()));
  } catch (error) {
    if (error instanceof PatternProblem) {
      return toPattern(source, RE2JS.compile(RE2JS.translateRegExp(source)));
    }
    throw error;
  }
}
