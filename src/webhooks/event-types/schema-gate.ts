/**
 * Decides which JSON Schemas (draft 2020-12) tenants may use: any single document within limits. It rejects
 * references out of the document and the keywords that move them ($id, $anchor, $dynamicRef). It also rejects
 * reference loops that consume nothing, and schemas too large to compile in the event loop.
 *
 * An accepted schema is copied with a cost at each subschema (`x-cost`), so that its evaluation can stop. Even a
 * small schema can require exponentially many steps.
 */
import { isJsonObject } from "../../domain/json-equality.ts";
import type { FieldProblem } from "../../domain/errors.ts";

/** Maximum bytes of a schema's JSON. */
export const SCHEMA_MAX = 65_536;
/** Maximum nesting of a schema's JSON. */
export const SCHEMA_DEPTH = 32;
/** Compiling a subschema takes up to half a millisecond of the event loop. */
const SUBSCHEMAS_MAX = 300;
const PATTERN_MAX = 512;
const PATTERNS_MAX = 50;
const ENUM_MAX = 1_000;
export const DIALECT = "https://json-schema.org/draft/2020-12/schema";

/** Cost of one visit: fixed, per 64 characters of a string, and per member of an object. */
export interface Cost {
  readonly visit: number;
  readonly text: number;
  readonly member: number;
  /** Instructions of the expressions that match a string, and a member's name. */
  readonly pattern: Patterns;
}

interface Patterns {
  text: number;
  name: number;
}

/** Returns the instructions of a compiled regular expression; undefined if it is unusable. */
export type PatternSize = (pattern: string) => number | undefined;

type Json = Readonly<Record<string, unknown>>;

/** Keywords whose value is a schema, a list of schemas, or a map of schemas. */
const ONE = new Set([
  "additionalProperties",
  "contains",
  "else",
  "if",
  "items",
  "not",
  "propertyNames",
  "then",
  "unevaluatedItems",
  "unevaluatedProperties",
]);
const LIST = new Set(["allOf", "anyOf", "oneOf", "prefixItems"]);
const NAMED = new Set(["$defs", "dependentSchemas", "patternProperties", "properties"]);
/** Keywords that apply to the same value as the schema that contains them. */
const IN_PLACE = new Set(["allOf", "anyOf", "dependentSchemas", "else", "if", "not", "oneOf", "then"]);
const PLAIN = new Set([
  "$comment",
  "$ref",
  "$schema",
  "const",
  "contentEncoding",
  "contentMediaType",
  "default",
  "dependentRequired",
  "deprecated",
  "description",
  "enum",
  "examples",
  "exclusiveMaximum",
  "exclusiveMinimum",
  "format",
  "maxContains",
  "maxItems",
  "maxLength",
  "maxProperties",
  "maximum",
  "minContains",
  "minItems",
  "minLength",
  "minProperties",
  "minimum",
  "multipleOf",
  "pattern",
  "readOnly",
  "required",
  "title",
  "type",
  "uniqueItems",
  "writeOnly",
]);

class SchemaProblem extends Error {
  readonly problem: FieldProblem;

  constructor(pointer: string, code: string, detail: string) {
    super(detail);
    this.problem = { pointer, code, detail };
  }
}

function sizeOf(value: unknown): number {
  return typeof value === "object" && value !== null ? Object.keys(value).length : 0;
}

function under(pointer: string, name: string | number): string {
  return `${pointer}/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

class Gate {
  /** In-place steps from each subschema, by pointer. They must not form a cycle. */
  readonly #inPlace = new Map<string, string[]>();
  readonly #patternSize: PatternSize;
  #subschemas = 0;
  #patterns = 0;

  constructor(patternSize: PatternSize) {
    this.#patternSize = patternSize;
  }

  /** @throws SchemaProblem */
  copy(schema: unknown): unknown {
    const copied = this.#schema(schema, "");
    this.#refuseLoops();
    return copied;
  }

  #schema(schema: unknown, pointer: string): unknown {
    if (typeof schema === "boolean") {
      return schema;
    }
    if (!isJsonObject(schema)) {
      throw new SchemaProblem(pointer, "type", "must be an object or a boolean");
    }
    this.#subschemas += 1;
    if (this.#subschemas > SUBSCHEMAS_MAX) {
      throw new SchemaProblem(pointer, "too_large", `exceeds ${SUBSCHEMAS_MAX} subschemas`);
    }
    const steps: string[] = [];
    this.#inPlace.set(pointer, steps);
    const copied: Record<string, unknown> = {};
    const patterns: Patterns = { text: 0, name: 0 };
    for (const [keyword, value] of Object.entries(schema)) {
      const place = under(pointer, keyword);
      copied[keyword] = this.#keyword(keyword, value, { place, patterns });
      if (IN_PLACE.has(keyword)) {
        steps.push(...partsOf(keyword, value, place));
      }
      if (keyword === "$ref") {
        steps.push(String(value).slice(1));
      }
    }
    return { ...copied, "x-cost": costOf(schema, patterns) };
  }

  #keyword(
    keyword: string,
    value: unknown,
    { place, patterns }: { readonly place: string; readonly patterns: Patterns },
  ): unknown {
    if (ONE.has(keyword)) {
      return this.#schema(value, place);
    }
    if (LIST.has(keyword)) {
      return this.#list(value, place);
    }
    if (NAMED.has(keyword)) {
      return this.#named(keyword, value, { place, patterns });
    }
    if (!PLAIN.has(keyword)) {
      throw new SchemaProblem(place, "unknown_keyword", "is not a supported keyword of draft 2020-12");
    }
    if (keyword === "pattern") {
      patterns.text += this.#pattern(value, place);
    }
    this.#plain(keyword, value, place);
    return value;
  }

  #list(value: unknown, place: string): unknown {
    if (!Array.isArray(value)) {
      throw new SchemaProblem(place, "type", "must be an array of schemas");
    }
    return value.map((part, index) => this.#schema(part, under(place, index)));
  }

  #named(
    keyword: string,
    value: unknown,
    { place, patterns }: { readonly place: string; readonly patterns: Patterns },
  ): unknown {
    if (!isJsonObject(value)) {
      throw new SchemaProblem(place, "type", "must be an object of schemas");
    }
    return Object.fromEntries(
      Object.entries(value).map(([name, part]) => {
        if (name === "__proto__") {
          throw new SchemaProblem(place, "name", "must not name __proto__");
        }
        if (keyword === "patternProperties") {
          patterns.name += this.#pattern(name, under(place, name));
        }
        return [name, this.#schema(part, under(place, name))];
      }),
    );
  }

  #plain(keyword: string, value: unknown, place: string): void {
    if (keyword === "$schema" && value !== DIALECT && value !== `${DIALECT}#`) {
      throw new SchemaProblem(place, "dialect", `must be ${DIALECT}`);
    }
    if (keyword === "$ref" && (typeof value !== "string" || !/^#(\/\$defs\/[^/%]{1,128})?$/.test(value))) {
      throw new SchemaProblem(place, "reference", "must be # or #/$defs/<name> of the same schema");
    }
    if (keyword === "enum" && sizeOf(value) > ENUM_MAX) {
      throw new SchemaProblem(place, "too_large", `has more than ${ENUM_MAX} values`);
    }
  }

  /** Returns the instructions of an expression. */
  #pattern(pattern: unknown, place: string): number {
    this.#patterns += 1;
    if (typeof pattern !== "string" || pattern.length > PATTERN_MAX || this.#patterns > PATTERNS_MAX) {
      throw new SchemaProblem(
        place,
        "pattern",
        `must be one of at most ${PATTERNS_MAX} patterns of at most ${PATTERN_MAX} characters`,
      );
    }
    const size = this.#patternSize(pattern);
    if (size === undefined) {
      throw new SchemaProblem(
        place,
        "pattern",
        "must be a regular expression of moderate size without look-around or back-references",
      );
    }
    return size;
  }

  #refuseLoops(): void {
    const done = new Set<string>();
    const visit = (pointer: string, path: ReadonlySet<string>): void => {
      if (path.has(pointer)) {
        throw new SchemaProblem(pointer, "reference", "refers to itself without going deeper into the data");
      }
      if (!done.has(pointer)) {
        const longer = new Set(path).add(pointer);
        for (const next of this.#inPlace.get(pointer) ?? []) {
          visit(next, longer);
        }
        done.add(pointer);
      }
    };
    for (const pointer of this.#inPlace.keys()) {
      visit(pointer, new Set());
    }
  }
}

/** Returns pointers of the subschemas in a keyword. */
function partsOf(keyword: string, value: unknown, place: string): string[] {
  return ONE.has(keyword) ? [place] : Object.keys(value as object).map((name) => under(place, name));
}

function costOf(schema: Json, pattern: Patterns): Cost {
  const lists = ["dependentRequired", "properties", "required"].map((keyword) => sizeOf(schema[keyword]));
  const patterns = sizeOf(schema["patternProperties"]);
  const perMember = ["additionalProperties", "propertyNames", "unevaluatedProperties"].filter(
    (keyword) => schema[keyword] !== undefined,
  ).length;
  return {
    visit: 1 + lists.reduce((sum, size) => sum + size, 0),
    text:
      (schema["pattern"] === undefined ? 0 : 16) +
      (schema["maxLength"] === undefined && schema["minLength"] === undefined ? 0 : 1),
    member: perMember * (1 + Math.min(sizeOf(schema["properties"]), 8)) + patterns * 16,
    pattern,
  };
}

/** A schema that may be compiled, or its error. */
export type Gated = { readonly priced: object | boolean } | { readonly problem: FieldProblem };

/** Copies a schema with its costs. */
export function gateSchema(schema: unknown, patternSize: PatternSize): Gated {
  try {
    return { priced: new Gate(patternSize).copy(schema) as object | boolean };
  } catch (error) {
    if (error instanceof SchemaProblem) {
      return { problem: error.problem };
    }
    throw error;
  }
}
