/** The one spelling of a value (RFC 8785 without fractions): what is hashed must be the same bytes everywhere. */

export type CanonicalValue =
  | string
  | number
  | boolean
  | null
  | readonly CanonicalValue[]
  | { readonly [name: string]: CanonicalValue };

/**
 * Writes a value with sorted members and no white space.
 *
 * @throws TypeError for a number that is no safe integer: two languages print fractions in two ways
 */
export function canonicalJson(value: CanonicalValue): string {
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new TypeError(`${value} has no canonical form: whole numbers only`);
  }
  if (typeof value !== "object" || value === null) {
    return JSON.stringify(value);
  }
  if (isList(value)) {
    return `[${value.map(canonicalJson).join(",")}]`;
  }
  const members = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`).join(",")}}`;
}

/**
 * Whether a text is the one spelling of the value that was read from it. Quicker than writing that value: JSON.stringify
 * writes members in the order in which they stood, so what is left to see is that this was the sorted one.
 */
export function isCanonical(text: string, value: CanonicalValue): boolean {
  // Names that are numbers stand first in an object, wherever they stood in its text: then it has to be written.
  return (JSON.stringify(value) === text && isSorted(value)) || canonicalJson(value) === text;
}

function isSorted(value: CanonicalValue): boolean {
  if (typeof value === "number") {
    return Number.isSafeInteger(value);
  }
  if (typeof value !== "object" || value === null) {
    return true;
  }
  if (isList(value)) {
    return value.every(isSorted);
  }
  let before: string | undefined;
  for (const name in value) {
    if ((before !== undefined && name <= before) || !isSorted(value[name] ?? null)) {
      return false;
    }
    before = name;
  }
  return true;
}

function isList(value: CanonicalValue): value is readonly CanonicalValue[] {
  return Array.isArray(value);
}
