/** Canonical JSON (RFC 8785 without fractions), so that hashed values have the same bytes everywhere. */

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
 * @throws TypeError for a number that is not a safe integer, because languages print fractions differently
 */
export function canonicalJson(value: CanonicalValue): string {
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new TypeError(`${value} has no canonical form: use whole numbers`);
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
 * Whether a text is the canonical form of the value parsed from it. This is faster than canonicalJson: JSON.stringify
 * keeps the order of members, so only their sorting remains to be checked.
 */
export function isCanonical(text: string, value: CanonicalValue): boolean {
  // JSON.stringify puts numeric names first, wherever they were in the text. Then the value must be written again.
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
