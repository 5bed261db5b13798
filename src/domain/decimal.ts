/**
 * Decimal numbers of any size, and a JSON parser that keeps them. JSON's numbers are decimal (RFC 8259, section 6):
 * as doubles, 19.99 is no multiple of 0.01, 2^53 + 1 equals 2^53, and 1e400 is infinite.
 */

/** A number of parsed JSON. A plain number stands for the decimal that JavaScript prints for it. */
export type JsonNumber = number | Decimal;

/** JSON's notation, and the one in which JavaScript prints numbers. */
const NOTATION = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
const ZERO = 0x30;

/** Returns the digits without zeros at either end, and the number of zeros removed at the end. */
function significant(digits: string): { readonly digits: string; readonly removed: number } {
  let start = 0;
  let end = digits.length;
  // Not by an expression: the search for zeros at the end would take quadratic time.
  while (start < end && digits.charCodeAt(start) === ZERO) {
    start += 1;
  }
  while (end > start && digits.charCodeAt(end - 1) === ZERO) {
    end -= 1;
  }
  return { digits: digits.slice(start, end), removed: digits.length - end };
}

/**
 * An exact decimal: `digits` × 10^`exponent`. Each value has one form, in which the digits have no zero at either end.
 * Zero has no digits.
 */
export class Decimal {
  /** The number as it was written. */
  readonly text: string;
  readonly isNegative: boolean;
  readonly digits: string;
  readonly exponent: bigint;
  #coefficient: bigint | undefined;
  #key: string | undefined;

  /** @param text a number of JSON */
  constructor(text: string) {
    const [, sign, whole = "", fraction = "", power = "0"] = NOTATION.exec(text) ?? [];
    const { digits, removed } = significant(whole + fraction);
    this.text = text;
    this.digits = digits;
    this.isNegative = sign === "-" && digits !== "";
    this.exponent = digits === "" ? 0n : BigInt(power) + BigInt(removed - fraction.length);
  }

  /** Whether it is a whole number: 1.0 and 1e2 are. */
  get isInteger(): boolean {
    return this.exponent >= 0n;
  }

  /** `digits` as a number. */
  get coefficient(): bigint {
    this.#coefficient ??= BigInt(this.digits);
    return this.#coefficient;
  }

  /** The same text for equal numbers. */
  get key(): string {
    this.#key ??= `${this.isNegative ? "-" : ""}${this.digits}e${this.exponent}`;
    return this.#key;
  }
}

/** Returns the decimal that a number of parsed JSON stands for. */
function toDecimal(value: JsonNumber): Decimal {
  return typeof value === "number" ? new Decimal(String(value)) : value;
}

/** Whether the value is a number of parsed JSON. */
export function isJsonNumber(value: unknown): value is JsonNumber {
  return typeof value === "number" || value instanceof Decimal;
}

function compareText(left: string, right: string): number {
  return left < right ? -1 : Number(left > right);
}

/** Compares the sizes of two numbers without their signs. */
function compareSize(left: Decimal, right: Decimal): number {
  if (left.digits === "" || right.digits === "") {
    return left.digits.length - right.digits.length;
  }
  const leading = left.exponent + BigInt(left.digits.length) - right.exponent - BigInt(right.digits.length);
  return leading === 0n ? compareText(left.digits, right.digits) : leading < 0n ? -1 : 1;
}

/** Returns a negative number, 0 or a positive number, as `left` is less than, equal to or greater than `right`. */
export function compareNumbers(left: JsonNumber, right: JsonNumber): number {
  if (typeof left === "number" && typeof right === "number") {
    return left < right ? -1 : Number(left > right);
  }
  const [a, b] = [toDecimal(left), toDecimal(right)];
  if (a.isNegative !== b.isNegative) {
    return a.isNegative ? -1 : 1;
  }
  return a.isNegative ? compareSize(b, a) : compareSize(a, b);
}

/** Removes all factors `prime` from a number. `power` is `prime`^`count`; squaring it keeps the divisions few. */
function withoutFactor(
  value: bigint,
  power: bigint,
  count = 1n,
): { readonly rest: bigint; readonly count: bigint } {
  if (value % power !== 0n) {
    return { rest: value, count: 0n };
  }
  const squared = withoutFactor(value / power, power * power, 2n * count);
  return squared.rest % power === 0n
    ? { rest: squared.rest / power, count: squared.count + 2n * count }
    : { rest: squared.rest, count: squared.count + count };
}

/** Whether a coefficient is divisible by `prime`^`count`. */
function hasFactors(value: Decimal, prime: bigint, count: bigint): boolean {
  // Each digit has at most 3.4 factors 2, and fewer factors 5: the power stays about as long as the value.
  return (
    count <= 0n || (count <= BigInt(4 * value.digits.length) && value.coefficient % prime ** count === 0n)
  );
}

/**
 * Returns a test of whether a number is a multiple of `divisor`, which is not 0. No power of ten is computed, so the
 * work depends on the lengths of the two texts only, whatever their exponents.
 */
export function multipleOf(divisor: JsonNumber): (value: JsonNumber) => boolean {
  const by = toDecimal(divisor);
  const twos = withoutFactor(by.coefficient, 2n);
  const fives = withoutFactor(twos.rest, 5n);
  return (value) => {
    if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) {
      return Number(value) % Number(divisor) === 0;
    }
    const of = toDecimal(value);
    const tens = of.exponent - by.exponent;
    // The last digit is not 0, so the value is no multiple of ten times its unit.
    return (
      of.digits === "" ||
      (tens >= 0n &&
        of.coefficient % fives.rest === 0n &&
        hasFactors(of, 2n, twos.count - tens) &&
        hasFactors(of, 5n, fives.count - tens))
    );
  };
}

/** Matches strings, to skip them, and numbers. */
const STRING_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/gs;
/** A double keeps every decimal of 15 digits. */
const KEPT_LENGTH = 15;
const MAY_CHANGE = /\d[\d.]{15}|\d[eE]/;

/** Whether a double certainly keeps a number. */
function isKept(token: string): boolean {
  return token.length <= KEPT_LENGTH && !/[eE]/.test(token);
}

/** Whether the text has a number that a double may not keep. */
function mayChange(text: string): boolean {
  if (!MAY_CHANGE.test(text)) {
    return false;
  }
  for (const [token] of text.matchAll(STRING_OR_NUMBER)) {
    if (!token.startsWith('"') && !isKept(token)) {
      return true;
    }
  }
  return false;
}

/** Whether a double of this text is the same decimal, as JavaScript prints it. */
export function isSameDouble(text: string, double: number): boolean {
  return isKept(text) || (Number.isFinite(double) && toDecimal(double).key === new Decimal(text).key);
}

/** Returns the double if JavaScript prints it as the same decimal, else the decimal. */
function exactNumber(text: string, double: number): JsonNumber {
  return isSameDouble(text, double) ? double : new Decimal(text);
}

type Reviver = (name: string, value: unknown, context: { readonly source?: string }) => unknown;
// TypeScript does not know the third argument yet.
const parseWithSource = JSON.parse as (text: string, reviver: Reviver) => unknown;

/** JSON.parse, in which every number that a double would change is a {@link Decimal}. @throws as JSON.parse */
export function parseExactJson(text: string): unknown {
  if (!mayChange(text)) {
    return JSON.parse(text) as unknown;
  }
  return parseWithSource(text, (_name, value, { source }) =>
    typeof value === "number" && source !== undefined ? exactNumber(source, value) : value,
  );
}
