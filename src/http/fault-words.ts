/**
 * Describes schema faults in plain words: what is expected and what was sent. Patterns are never shown; a schema with a
 * pattern describes it in `x-wanted`. Strings are reported by length, unless `x-shown` marks them as names or numbers,
 * so that errors never repeat a misplaced secret.
 */
import type { ErrorObject } from "ajv";
import { RawJson } from "./strict-json.ts";

/** The schema keywords that the sentences use. */
export interface DescribedSchema {
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly DescribedSchema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly properties?: Readonly<Record<string, DescribedSchema>>;
  readonly propertyNames?: DescribedSchema;
  readonly "x-wanted"?: string;
  readonly "x-shown"?: boolean;
}

/** Maximum length of a repeated value, in characters. */
const SHOWN_MAX = 40;
const NAME_LIKE = /^[\w.:*+-]+$/;
/** Prefixes of the service's own secrets and tokens. */
const SECRET_LIKE = /^(sgn_|whsec_|whpk_|sop_|eyJ)/;
/** Maximum number of listed names; for more, errors refer to the documentation. */
const LISTED_MAX = 20;

const KINDS: Readonly<Record<string, string>> = {
  string: "a string",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  null: "null",
};

/** Returns "a, b or c". */
function alternatives(words: readonly string[]): string {
  const last = words.at(-1) ?? "";
  return words.length < 2 ? last : `${words.slice(0, -1).join(", ")} or ${last}`;
}

function countOf(value: number, one: string): string {
  return `${value} ${one}${value === 1 ? "" : "s"}`;
}

/** Returns the length in code points, as JSON Schema counts. */
function lengthOf(text: string): number {
  return Array.from(text).length;
}

function range(min: number | undefined, max: number | undefined): string {
  if (max === undefined) {
    return min === undefined ? "" : ` of at least ${min}`;
  }
  return min === undefined ? ` of at most ${max}` : ` from ${min} to ${max}`;
}

function choices(values: readonly unknown[]): string {
  const words = values.map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
  return words.length > LISTED_MAX
    ? `one of the ${words.length} names in the documentation, such as ${words[0]}`
    : alternatives(words);
}

/** Describes the values that a schema accepts, as a noun phrase. */
function wanted(schema: DescribedSchema): string {
  if (schema["x-wanted"] !== undefined) {
    return schema["x-wanted"];
  }
  if (schema.const !== undefined) {
    return choices([schema.const]);
  }
  if (schema.enum !== undefined) {
    return choices(schema.enum);
  }
  if (schema.anyOf !== undefined) {
    return alternatives([...new Set(schema.anyOf.map(wanted))]);
  }
  const types = [schema.type ?? []].flat();
  return alternatives(
    types.map((type) => {
      const numeric = type === "integer" || type === "number";
      return `${KINDS[type] ?? type}${numeric ? range(schema.minimum, schema.maximum) : ""}`;
    }),
  );
}

/** Returns the type of a JSON value. */
export function kindOf(value: unknown): string {
  if (value instanceof RawJson) {
    return value.kind;
  }
  if (value === null) {
    return "null";
  }
  return Array.isArray(value) ? "array" : typeof value;
}

/** Describes the value that was sent, without secrets or long strings. */
function came(value: unknown, schema: DescribedSchema): string {
  if (typeof value === "number" || typeof value === "boolean") {
    return String(value);
  }
  if (typeof value !== "string") {
    return KINDS[kindOf(value)] ?? "something else";
  }
  if (value === "") {
    return "an empty string";
  }
  const shown =
    schema["x-shown"] === true ||
    schema.enum !== undefined ||
    schema.const !== undefined ||
    schema.type === "integer";
  return shown && value.length <= SHOWN_MAX && NAME_LIKE.test(value) && !SECRET_LIKE.test(value)
    ? JSON.stringify(value)
    : `a string of ${countOf(lengthOf(value), "character")}`;
}

function amounts(fault: ErrorObject, one: string, amount: number, limits: readonly [string, string]): string {
  const schema = fault.parentSchema as Readonly<Record<string, number | undefined>>;
  const [min, max] = limits.map((name) => schema[name]);
  const said =
    min !== undefined && max !== undefined && min > 1
      ? `${min === max ? "" : `${min} to `}${countOf(max, one)}`
      : fault.keyword === limits[0]
        ? `at least ${countOf(min ?? 0, one)}`
        : `at most ${countOf(max ?? 0, one)}`;
  return `must have ${said}, not ${amount}`;
}

function sizeSentence(fault: ErrorObject): string | undefined {
  const { keyword, data } = fault;
  if (keyword === "minLength" || keyword === "maxLength") {
    return amounts(fault, "character", lengthOf(data as string), ["minLength", "maxLength"]);
  }
  if (keyword === "minItems" || keyword === "maxItems") {
    return amounts(fault, "item", (data as readonly unknown[]).length, ["minItems", "maxItems"]);
  }
  if (keyword === "minProperties" || keyword === "maxProperties") {
    const amount = Object.keys(data as object).length;
    return amounts(fault, "member", amount, ["minProperties", "maxProperties"]);
  }
  return undefined;
}

/** Sentences for keywords that need more than "must be". */
const SENTENCES: Readonly<Record<string, (fault: ErrorObject, schema: DescribedSchema) => string>> = {
  required: ({ params }, { properties = {} }) => {
    const member = properties[String(params["missingProperty"])];
    const noun = member === undefined ? "" : wanted(member);
    return noun === "" ? "is required" : `is required: ${noun}`;
  },
  additionalProperties: (_fault, { properties = {} }) => {
    const names = Object.keys(properties);
    return names.length === 0 || names.length > LISTED_MAX
      ? "is unknown"
      : `is unknown; known: ${names.join(", ")}`;
  },
  propertyNames: (_fault, { propertyNames = {} }) => {
    const { maxLength, "x-wanted": noun } = propertyNames;
    return noun === undefined && maxLength !== undefined
      ? `has a name of more than ${maxLength} characters`
      : `has a name that is not ${wanted(propertyNames)}`;
  },
  "x-opaque-depth": ({ data }) =>
    `must be nested at most ${countOf((data as RawJson).exceededDepth ?? 0, "level")} deep`,
  uniqueItems: ({ params }) =>
    `must not have duplicate items: items ${params["i"]} and ${params["j"]} are equal`,
};

/** Returns a sentence without its subject for a fault that Ajv found with `verbose`. */
export function faultSentence(fault: ErrorObject): string {
  const schema = (fault.parentSchema ?? {}) as DescribedSchema;
  const said = sizeSentence(fault) ?? SENTENCES[fault.keyword]?.(fault, schema);
  if (said !== undefined) {
    return said;
  }
  const noun = wanted(schema);
  return noun === "" ? "is invalid" : `must be ${noun}, not ${came(fault.data, schema)}`;
}
