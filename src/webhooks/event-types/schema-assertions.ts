/** The keywords of JSON Schema Validation: each compares a value with a constant. Formats are annotations. */
import { compareNumbers, Decimal, isJsonNumber, type JsonNumber, multipleOf } from "#domain/decimal.ts";
import { isJsonObject, isSameJson } from "#domain/json-equality.ts";
import type { Pattern } from "./patterns.ts";
import type { Check, Run } from "./schema-run.ts";

/** Creates the check of a keyword from the keyword's value, which the gate has checked. */
type Assertion = (wanted: never) => Check;

/** Characters that cost one step. */
const TEXT_SHIFT = 6;

function textSteps({ length }: string): number {
  return 1 + (length >> TEXT_SHIFT);
}

/** Charges for the digits of a number that is no double. */
function spendDigits(value: JsonNumber, run: Run, factor = 1): void {
  if (value instanceof Decimal) {
    run.spend(textSteps(value.text) * factor);
  }
}

function shown(value: JsonNumber): string {
  return typeof value === "number" ? String(value) : value.text;
}

function bound(code: string, sign: string, holds: (order: number) => boolean): (limit: JsonNumber) => Check {
  return (limit) => (value, run) => {
    if (!isJsonNumber(value)) {
      return true;
    }
    spendDigits(value, run);
    return holds(compareNumbers(value, limit)) || run.fail(code, `must be ${sign} ${shown(limit)}`);
  };
}

/** Returns a length limit. One that is no double is larger than any value. */
export function lengthOf(limit: JsonNumber): number {
  return typeof limit === "number" ? limit : Number.MAX_SAFE_INTEGER;
}

interface Measured {
  readonly code: string;
  readonly noun: string;
  /** Returns the length of a value, or undefined if the limit does not apply to it. */
  readonly measure: (value: unknown, run: Run) => number | undefined;
}

function atLeast({ code, noun, measure }: Measured): (limit: JsonNumber) => Check {
  return (limit) => (value, run) =>
    (measure(value, run) ?? Infinity) >= lengthOf(limit) ||
    run.fail(code, `must NOT have fewer than ${shown(limit)} ${noun}`);
}

function atMost({ code, noun, measure }: Measured): (limit: JsonNumber) => Check {
  return (limit) => (value, run) =>
    (measure(value, run) ?? 0) <= lengthOf(limit) ||
    run.fail(code, `must NOT have more than ${shown(limit)} ${noun}`);
}

/** Returns the number of characters (code points). */
function characters(value: unknown, run: Run): number | undefined {
  if (typeof value !== "string") {
    return undefined;
  }
  run.spend(textSteps(value));
  let count = 0;
  for (let at = 0; at < value.length; at += 1) {
    count += 1;
    // Strings of events have no lone surrogates.
    at += Number((value.charCodeAt(at) & 0xfc00) === 0xd800);
  }
  return count;
}

function itemCount(value: unknown): number | undefined {
  return Array.isArray(value) ? value.length : undefined;
}

function memberCount(value: unknown, run: Run): number | undefined {
  if (!isJsonObject(value)) {
    return undefined;
  }
  const { length } = Object.keys(value);
  run.spend(length);
  return length;
}

/** Whether a number is whole: 1.0 and 1e2 are. */
export function isWhole(value: JsonNumber): boolean {
  return typeof value === "number" ? Number.isInteger(value) : value.isInteger;
}

const TYPES: Readonly<Record<string, (value: unknown) => boolean>> = {
  array: Array.isArray,
  boolean: (value) => typeof value === "boolean",
  integer: (value) => isJsonNumber(value) && isWhole(value),
  null: (value) => value === null,
  number: isJsonNumber,
  object: isJsonObject,
  string: (value) => typeof value === "string",
};

/** The names of the types. */
export const TYPE_NAMES: readonly string[] = Object.keys(TYPES);

/** Returns the same text for equal JSON values. */
function fingerprint(value: unknown, run: Run): string {
  if (value instanceof Decimal) {
    run.spend(textSteps(value.text));
    return value.key;
  }
  run.spend(typeof value === "string" ? textSteps(value) : 1);
  if (typeof value !== "object" || value === null) {
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) {
    return `[${value.map((item) => fingerprint(item, run)).join(",")}]`;
  }
  const members = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${fingerprint(member, run)}`).join(",")}}`;
}

type Missing = (run: Run, name: string) => false;

/** Returns the check of the members that an object must have. */
function membersOf(names: readonly string[], missing: Missing): (value: object, run: Run) => boolean {
  return (value, run) => {
    run.spend(names.length);
    return run.every(names, (name) => Object.hasOwn(value, name) || missing(run, name));
  };
}

function required(names: readonly string[]): Check {
  const has = membersOf(names, (run, name) =>
    run.fail("required", `must have required property '${name}'`, name),
  );
  return (value, run) => !isJsonObject(value) || has(value, run);
}

function dependentRequired(named: Readonly<Record<string, readonly string[]>>): Check {
  const rules = Object.entries(named).map(([trigger, names]) => ({
    trigger,
    has: membersOf(names, (run, name) =>
      run.fail("dependent_required", `must have property ${name} when property ${trigger} is present`),
    ),
  }));
  return (value, run) => {
    if (!isJsonObject(value)) {
      return true;
    }
    run.spend(rules.length);
    return run.every(rules, ({ trigger, has }) => !Object.hasOwn(value, trigger) || has(value, run));
  };
}

function typed(wanted: string | readonly string[]): Check {
  const names = typeof wanted === "string" ? [wanted] : wanted;
  const tests = names.map((name) => TYPES[name]);
  return (value, run) =>
    tests.some((test) => test?.(value)) || run.fail("type", `must be ${names.join(",")}`);
}

/** Returns the check of `pattern` for a compiled expression. */
export function matching(pattern: Pattern): Check {
  return (value, run) =>
    typeof value !== "string" ||
    pattern.test(value, run.spend) ||
    run.fail("pattern", `must match pattern "${pattern.source}"`);
}

/** By keyword; `pattern` needs its compiled expression, see {@link matching}. */
export const ASSERTIONS: Readonly<Record<string, Assertion>> = {
  const:
    (wanted: unknown): Check =>
    (value, run) =>
      isSameJson(value, wanted, run.spend) || run.fail("const", "must be equal to the constant"),
  dependentRequired,
  enum:
    (list: readonly unknown[]): Check =>
    (value, run) =>
      list.some((wanted) => isSameJson(value, wanted, run.spend)) ||
      run.fail("enum", "must be equal to one of the allowed values"),
  exclusiveMaximum: bound("exclusive_maximum", "<", (order) => order < 0),
  exclusiveMinimum: bound("exclusive_minimum", ">", (order) => order > 0),
  maxItems: atMost({ code: "max_items", noun: "items", measure: itemCount }),
  maxLength: atMost({ code: "max_length", noun: "characters", measure: characters }),
  maxProperties: atMost({ code: "max_properties", noun: "properties", measure: memberCount }),
  maximum: bound("maximum", "<=", (order) => order <= 0),
  minItems: atLeast({ code: "min_items", noun: "items", measure: itemCount }),
  minLength: atLeast({ code: "min_length", noun: "characters", measure: characters }),
  minProperties: atLeast({ code: "min_properties", noun: "properties", measure: memberCount }),
  minimum: bound("minimum", ">=", (order) => order >= 0),
  multipleOf: (divisor: JsonNumber): Check => {
    const divides = multipleOf(divisor);
    // The work is at most the product of the two lengths.
    const factor = textSteps(shown(divisor));
    return (value, run) => {
      if (!isJsonNumber(value)) {
        return true;
      }
      spendDigits(value, run, factor);
      return divides(value) || run.fail("multiple_of", `must be multiple of ${shown(divisor)}`);
    };
  },
  required,
  type: typed,
  uniqueItems:
    (wanted: boolean): Check =>
    (value, run) =>
      !wanted ||
      !Array.isArray(value) ||
      new Set(value.map((item) => fingerprint(item, run))).size === value.length ||
      run.fail("unique_items", "must not contain duplicate items"),
};
