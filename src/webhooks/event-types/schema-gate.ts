/**
 * Decides which JSON Schemas (draft 2020-12) tenants may use: any single document within limits. It rejects
 * references out of the document and the keywords that move them ($id, $anchor, $dynamicRef). It also rejects
 * reference loops that consume nothing.
 */
import { compareNumbers, isJsonNumber } from "#domain/decimal.ts";
import { isJsonObject } from "#domain/json-equality.ts";
import type { FieldProblem } from "#domain/errors.ts";
import { isWhole, TYPE_NAMES } from "./schema-assertions.ts";

/** Maximum bytes of a schema's JSON. */
export const SCHEMA_MAX = 65_536;
/** Maximum nesting of a schema's JSON. */
export const SCHEMA_DEPTH = 32;
/** The event schemas that GitHub publishes have up to 414. A subschema compiles in microseconds. */
const SUBSCHEMAS_MAX = 5_000;
const PATTERN_MAX = 512;
const PATTERNS_MAX = 50;
const ENUM_MAX = 1_000;
const DIALECT = "https://json-schema.org/draft/2020-12/schema";

/** Returns why an expression cannot be used, or undefined. */
export type PatternFault = (pattern: string) => string | undefined;

/** Keywords whose value is a schema, a list of schemas, or a map of schemas. */
export const ONE = new Set([
  "additionalProperties",
  "contains",
  // An annotation.
  "contentSchema",
  "else",
  "if",
  "items",
  "not",
  "propertyNames",
  "then",
  "unevaluatedItems",
  "unevaluatedProperties",
]);
export const LIST = new Set(["allOf", "anyOf", "oneOf", "prefixItems"]);
export const NAMED = new Set(["$defs", "dependentSchemas", "patternProperties", "properties"]);
/** Keywords that apply to the same value as the schema that contains them. */
const IN_PLACE = new Set(["allOf", "anyOf", "dependentSchemas", "else", "if", "not", "oneOf", "then"]);

interface Shape {
  readonly fits: (value: unknown) => boolean;
  /** What a value must be. */
  readonly detail: string;
  readonly code?: string;
}

const isText = (value: unknown): boolean => typeof value === "string";
const isDistinct = (values: readonly unknown[]): boolean => new Set(values).size === values.length;
const isNames = (value: unknown): boolean => Array.isArray(value) && value.every(isText) && isDistinct(value);

const ANY: Shape = { fits: () => true, detail: "anything" };
const TEXT: Shape = { fits: isText, detail: "a string" };
const FLAG: Shape = { fits: (value) => typeof value === "boolean", detail: "a boolean" };
const NUMBER: Shape = { fits: isJsonNumber, detail: "a number" };
const SIZE: Shape = {
  fits: (value) => isJsonNumber(value) && isWhole(value) && compareNumbers(value, 0) >= 0,
  detail: "a non-negative integer",
};
const LISTED: Shape = { fits: Array.isArray, detail: "an array" };
const NAMES: Shape = { fits: isNames, detail: "an array of distinct strings" };

/** The values of the other keywords. */
const PLAIN: ReadonlyMap<string, Shape> = new Map<string, Shape>([
  ["$comment", TEXT],
  ["$ref", TEXT],
  [
    "$schema",
    { fits: (value) => value === DIALECT || value === `${DIALECT}#`, detail: DIALECT, code: "dialect" },
  ],
  ["const", ANY],
  ["contentEncoding", TEXT],
  ["contentMediaType", TEXT],
  ["default", ANY],
  [
    "dependentRequired",
    {
      fits: (value) => isJsonObject(value) && Object.values(value).every(isNames),
      detail: "an object of arrays of distinct strings",
    },
  ],
  ["deprecated", FLAG],
  ["description", TEXT],
  ["enum", LISTED],
  ["examples", LISTED],
  ["exclusiveMaximum", NUMBER],
  ["exclusiveMinimum", NUMBER],
  ["format", TEXT],
  ["maxContains", SIZE],
  ["maxItems", SIZE],
  ["maxLength", SIZE],
  ["maxProperties", SIZE],
  ["maximum", NUMBER],
  ["minContains", SIZE],
  ["minItems", SIZE],
  ["minLength", SIZE],
  ["minProperties", SIZE],
  ["minimum", NUMBER],
  [
    "multipleOf",
    { fits: (value) => isJsonNumber(value) && compareNumbers(value, 0) > 0, detail: "a number above 0" },
  ],
  ["pattern", TEXT],
  ["readOnly", FLAG],
  ["required", NAMES],
  ["title", TEXT],
  [
    "type",
    {
      fits: (value) => {
        const names: readonly unknown[] = Array.isArray(value) ? value : [value];
        return (
          names.length > 0 && isDistinct(names) && names.every((name) => TYPE_NAMES.includes(String(name)))
        );
      },
      detail: `one of ${TYPE_NAMES.join(", ")}, or an array of some of them`,
    },
  ],
  ["uniqueItems", FLAG],
  ["writeOnly", FLAG],
]);

class SchemaProblem extends Error {
  readonly problem: FieldProblem;

  constructor(pointer: string, code: string, detail: string) {
    super(detail);
    this.problem = { pointer, code, detail };
  }
}

/** Returns the JSON pointer of a member or an item. */
export function under(pointer: string, name: string | number): string {
  return `${pointer}/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** Returns the JSON pointer that `$ref` has, or undefined if it leaves the document or is malformed. */
export function targetOf(reference: string): string | undefined {
  try {
    return /^#(?:\/|$)/.test(reference) ? decodeURIComponent(reference.slice(1)) : undefined;
  } catch {
    return undefined;
  }
}

class Gate {
  /** In-place steps from each subschema, by pointer. They must not form a cycle. */
  readonly #inPlace = new Map<string, string[]>();
  readonly #patternFault: PatternFault;
  #patterns = 0;

  constructor(patternFault: PatternFault) {
    this.#patternFault = patternFault;
  }

  /** @throws SchemaProblem */
  check(schema: unknown): void {
    this.#schema(schema, "");
    for (const target of [...this.#inPlace.values()].flat()) {
      if (!this.#inPlace.has(target)) {
        throw new SchemaProblem("", "reference", `has a $ref to #${target}, where there is no schema`);
      }
    }
    this.#refuseLoops();
  }

  #schema(schema: unknown, pointer: string): void {
    const steps: string[] = [];
    this.#inPlace.set(pointer, steps);
    if (typeof schema === "boolean") {
      return;
    }
    if (!isJsonObject(schema)) {
      throw new SchemaProblem(pointer, "type", "must be an object or a boolean");
    }
    if (this.#inPlace.size > SUBSCHEMAS_MAX) {
      throw new SchemaProblem(pointer, "too_large", `exceeds ${SUBSCHEMAS_MAX} subschemas`);
    }
    for (const [keyword, value] of Object.entries(schema)) {
      const place = under(pointer, keyword);
      this.#keyword(keyword, value, place);
      if (IN_PLACE.has(keyword)) {
        steps.push(...partsOf(keyword, value, place));
      }
      if (keyword === "$ref") {
        steps.push(this.#target(String(value), place));
      }
    }
  }

  #keyword(keyword: string, value: unknown, place: string): void {
    if (ONE.has(keyword)) {
      this.#schema(value, place);
    } else if (LIST.has(keyword)) {
      this.#list(value, place);
    } else if (NAMED.has(keyword)) {
      this.#named(keyword, value, place);
    } else {
      this.#plain(keyword, value, place);
    }
  }

  #list(value: unknown, place: string): void {
    if (!Array.isArray(value) || value.length === 0) {
      throw new SchemaProblem(place, "type", "must be a non-empty array of schemas");
    }
    for (const [index, part] of value.entries()) {
      this.#schema(part, under(place, index));
    }
  }

  #named(keyword: string, value: unknown, place: string): void {
    if (!isJsonObject(value)) {
      throw new SchemaProblem(place, "type", "must be an object of schemas");
    }
    for (const [name, part] of Object.entries(value)) {
      if (keyword === "patternProperties") {
        this.#pattern(name, under(place, name));
      }
      this.#schema(part, under(place, name));
    }
  }

  #plain(keyword: string, value: unknown, place: string): void {
    const shape = PLAIN.get(keyword);
    if (shape === undefined) {
      throw new SchemaProblem(place, "unknown_keyword", "is not a supported keyword of draft 2020-12");
    }
    if (!shape.fits(value)) {
      throw new SchemaProblem(place, shape.code ?? "type", `must be ${shape.detail}`);
    }
    if (keyword === "enum" && (value as readonly unknown[]).length > ENUM_MAX) {
      throw new SchemaProblem(place, "too_large", `has more than ${ENUM_MAX} values`);
    }
    if (keyword === "pattern") {
      this.#pattern(String(value), place);
    }
  }

  #target(reference: string, place: string): string {
    const target = targetOf(reference);
    if (target === undefined) {
      throw new SchemaProblem(place, "reference", "must be # or #/… to a schema of the same document");
    }
    return target;
  }

  #pattern(pattern: string, place: string): void {
    this.#patterns += 1;
    if (pattern.length > PATTERN_MAX || this.#patterns > PATTERNS_MAX) {
      throw new SchemaProblem(
        place,
        "pattern",
        `must be one of at most ${PATTERNS_MAX} patterns of at most ${PATTERN_MAX} characters`,
      );
    }
    const fault = this.#patternFault(pattern);
    if (fault !== undefined) {
      throw new SchemaProblem(place, "pattern", fault);
    }
  }

  /** Without recursion: a chain of references can be as long as the schema. */
  #refuseLoops(): void {
    const state = new Map<string, "open" | "done">();
    const path = [...this.#inPlace.keys()];
    for (let pointer = path.at(-1); pointer !== undefined; pointer = path.at(-1)) {
      if (state.has(pointer)) {
        state.set(pointer, "done");
        path.pop();
        continue;
      }
      state.set(pointer, "open");
      for (const next of this.#inPlace.get(pointer) ?? []) {
        if (state.get(next) === "open") {
          throw new SchemaProblem(next, "reference", "refers to itself without going deeper into the data");
        }
        if (!state.has(next)) {
          path.push(next);
        }
      }
    }
  }
}

/** Returns pointers of the subschemas in a keyword. */
function partsOf(keyword: string, value: unknown, place: string): string[] {
  return ONE.has(keyword) ? [place] : Object.keys(value as object).map((name) => under(place, name));
}

/** Returns the first problem of a schema, with a pointer relative to the schema, or undefined. */
export function gateSchema(schema: unknown, patternFault: PatternFault): FieldProblem | undefined {
  try {
    new Gate(patternFault).check(schema);
    return undefined;
  } catch (error) {
    if (error instanceof SchemaProblem) {
      return error.problem;
    }
    throw error;
  }
}
