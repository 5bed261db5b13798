/** The code points of Unicode properties, as the JavaScript engine knows them. */

/** A property in ECMA 262's spelling: Letter, Lu, Alphabetic, Script=Greek. */
const PROPERTY = /^[A-Za-z_]+(?:=[A-Za-z_]+)?$/;
const PLANE = 0x1_00_00;
const LAST = 0x10_ff_ff;
const SURROGATES = { first: 0xd8_00, last: 0xdf_ff };
/** Maximum number of remembered properties. */
const REMEMBERED_MAX = 200;

/** First and last code points, ascending. */
export type Ranges = readonly (readonly [number, number])[];

const remembered = new Map<string, Ranges>();

/** Planes with many characters. In the others, all code points but the last two are alike. */
const MIXED_PLANES = [0, 1, 2, 3, 14];
const LIKE_PLANES = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16];

/** Returns a text of all code points of the mixed planes but the surrogates, which no text of an event has. */
function mixedText(): string {
  const units = new Uint16Array(2 * MIXED_PLANES.length * PLANE);
  let at = 0;
  for (const plane of MIXED_PLANES) {
    for (let point = plane * PLANE; point < (plane + 1) * PLANE; point += 1) {
      if (plane > 0) {
        units[at] = 0xd7_c0 + (point >> 10);
        units[at + 1] = 0xdc_00 + (point & 0x3_ff);
        at += 2;
      } else if (point < SURROGATES.first || point > SURROGATES.last) {
        units[at] = point;
        at += 1;
      }
    }
  }
  return Buffer.from(units.buffer, 0, 2 * at).toString("utf16le");
}

function lastPoint(text: string): number {
  const low = text.charCodeAt(text.length - 1);
  const isLow = low >= 0xdc_00 && low <= SURROGATES.last;
  return text.codePointAt(text.length - (isLow ? 2 : 1)) ?? 0;
}

function search(property: string): Ranges {
  const ranges: [number, number][] = [];
  for (const [text] of mixedText().matchAll(new RegExp(`\\p{${property}}+`, "gu"))) {
    ranges.push([text.codePointAt(0) ?? 0, lastPoint(text)]);
  }
  const one = new RegExp(`\\p{${property}}`, "u");
  for (const start of LIKE_PLANES.map((plane) => plane * PLANE)) {
    for (const [first, last] of [
      [start, start + PLANE - 3],
      [start + PLANE - 2, start + PLANE - 1],
    ] as const) {
      if (one.test(String.fromCodePoint(first))) {
        ranges.push([first, last]);
      }
    }
  }
  return ranges.sort(([left], [right]) => left - right);
}

/** Returns the code points with a property, or undefined if ECMA 262 does not know it. Takes milliseconds at first. */
export function rangesOf(property: string): Ranges | undefined {
  const known = remembered.get(property);
  if (known !== undefined || !PROPERTY.test(property)) {
    return known;
  }
  try {
    RegExp(`\\p{${property}}`, "u");
  } catch {
    return undefined;
  }
  const ranges = search(property);
  if (remembered.size < REMEMBERED_MAX) {
    remembered.set(property, ranges);
  }
  return ranges;
}

/** Returns all other code points. */
export function complement(ranges: Ranges): Ranges {
  const others: [number, number][] = [];
  let next = 0;
  for (const [first, last] of ranges) {
    if (first > next) {
      others.push([next, first - 1]);
    }
    next = last + 1;
  }
  return next > LAST ? others : [...others, [next, LAST]];
}
