/**
 * Compiles the schemas of tenants with Ajv and checks `data` with them, within a budget of steps. Schemas are
 * untrusted, so they pass the gate first. Regular expressions run in linear time (RE2). An evaluation that runs out
 * of steps is a rejection.
 */
import { Ajv2020, type ErrorObject, type Options, type ValidateFunction } from "ajv/dist/2020.js";
import { RE2JS } from "re2js";
import { fieldProblems } from "../../http/validation.ts";
import { isSameJson } from "../../domain/json-equality.ts";
import type { FieldProblem } from "../../domain/errors.ts";
import { type Cost, DIALECT, gateSchema } from "./schema-gate.ts";

/**
 * Maximum steps per evaluation. A step is a visit of one subschema to one value, a member of a list, or 64
 * characters.
 */
const STEPS_MAX = 250_000;
/** Maximum instructions of a compiled regular expression. */
const PATTERN_PROGRAM_MAX = 1_000;
/** Instructions per character that count as one step. */
const INSTRUCTIONS_PER_STEP = 32;
/** Maximum characters of a pointer or detail of a problem, as both can repeat content of the event. */
const PROBLEM_TEXT_MAX = 256;
const PROBLEMS_MAX = 20;

/** Returns the problems of `data`; empty if it is valid. Pointers begin with `/data`. */
export type CheckData = (data: unknown) => readonly FieldProblem[];

class TooManySteps extends Error {}

/** Steps left of the current evaluation. Evaluations do not interleave. */
let stepsLeft = 0;

function spend(steps: number): void {
  stepsLeft -= steps;
  if (stepsLeft < 0) {
    throw new TooManySteps();
  }
}

/**
 * Returns the steps for matching an expression. Linear time can still be slow: for each character, all instructions
 * may run, at about 10 ns each. The fixed cost covers only few of them.
 */
function matching(instructions: number, { length }: string): number {
  return Math.floor((instructions * length) / INSTRUCTIONS_PER_STEP);
}

function charge({ visit, text, member, pattern }: Cost, value: unknown): boolean {
  let steps = visit;
  if (text > 0 && typeof value === "string") {
    steps += text * (1 + (value.length >> 6)) + matching(pattern.text, value);
  } else if (member > 0 && typeof value === "object" && value !== null && !Array.isArray(value)) {
    // Names are matched with patterns, as strings are.
    for (const name of Object.keys(value)) {
      steps += member * (1 + (name.length >> 6)) + matching(pattern.name, name);
    }
  }
  spend(steps);
  return true;
}

/** Returns the same text for equal JSON values. */
function fingerprint(value: unknown): string {
  spend(1);
  if (typeof value !== "object" || value === null) {
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) {
    return `[${value.map(fingerprint).join(",")}]`;
  }
  const members = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${fingerprint(member)}`).join(",")}}`;
}

/** Replaces Ajv's check, which compares all pairs. */
function hasUniqueItems(wanted: boolean, items: readonly unknown[]): boolean {
  return !wanted || new Set(items.map(fingerprint)).size === items.length;
}

/** Replaces Ajv's comparisons, which call `valueOf` of the compared values. JSON can have a member with that name. */
const REPLACED = [
  {
    keyword: "const",
    validate: (wanted: unknown, value: unknown) => isSameJson(value, wanted, spend),
    error: { message: "must be equal to the constant" },
  },
  {
    keyword: "enum",
    validate: (list: readonly unknown[], value: unknown) =>
      list.some((wanted) => isSameJson(value, wanted, spend)),
    error: { message: "must be equal to one of the allowed values" },
  },
  {
    keyword: "uniqueItems",
    type: "array" as const,
    validate: hasUniqueItems,
    error: { message: "must not contain duplicate items" },
  },
];

function compilePattern(pattern: string): RE2JS {
  return RE2JS.compile(RE2JS.translateRegExp(pattern));
}

function usablePattern(pattern: string): number | undefined {
  try {
    const size = compilePattern(pattern).programSize();
    return size <= PATTERN_PROGRAM_MAX ? size : undefined;
  } catch {
    return undefined;
  }
}

const linearTime = Object.assign(
  (pattern: string): { test(text: string): boolean } => {
    const compiled = compilePattern(pattern);
    // Ajv tells expressions apart by their text.
    const expression = { test: (text: string) => compiled.test(text), toString: () => pattern };
    return expression;
  },
  { code: "linearTime" },
);

const OPTIONS: Options = {
  meta: false,
  strict: false,
  validateSchema: false,
  validateFormats: false,
  allErrors: true,
  // References stay calls. Otherwise a schema referenced a thousand times would be compiled a thousand times.
  inlineRefs: false,
  // `constructor` and similar names count only if the event has them.
  ownProperties: true,
  loopRequired: 16,
  logger: false,
  // The optimizer takes seconds for a schema of a thousand parts, and V8 does as well without it.
  code: { regExp: linearTime, optimize: false },
};

/** Creates a compiler for one schema, because a compiler keeps the names and values of all it has compiled. */
function createCompiler(): Ajv2020 {
  const ajv = new Ajv2020(OPTIONS);
  ajv.addKeyword({ keyword: "x-cost", validate: charge, errors: false });
  for (const { keyword, ...definition } of REPLACED) {
    ajv.removeKeyword(keyword);
    ajv.addKeyword({ keyword, ...definition, errors: false });
  }
  return ajv;
}

const metaSchema = new Ajv2020({ strict: false, validateFormats: false, logger: false });

/** Returns the problems of a schema as a JSON Schema. Pointers are relative to the schema. */
export function schemaProblems(schema: unknown): readonly FieldProblem[] {
  const gated = gateSchema(schema, usablePattern);
  if ("problem" in gated) {
    return [gated.problem];
  }
  return metaSchema.validate(DIALECT, schema)
    ? unresolved(gated.priced)
    : fieldProblems(metaSchema.errors ?? []);
}

/** Returns the problems that only the compiler finds: references to missing definitions. */
function unresolved(priced: object | boolean): readonly FieldProblem[] {
  try {
    createCompiler().compile(priced);
    return [];
  } catch (error) {
    const detail = error instanceof Error ? clipped(error.message) : "cannot be compiled";
    return [{ pointer: "", code: "reference", detail }];
  }
}

/**
 * Compiles a schema for which {@link schemaProblems} returned no problem.
 *
 * @throws Error if there is one
 */
export function compileSchema(schema: unknown): CheckData {
  // Any schema that was once accepted.
  const gated = gateSchema(schema, (pattern) => compilePattern(pattern).programSize());
  if ("problem" in gated) {
    throw new Error(`a schema cannot be used: ${gated.problem.pointer} ${gated.problem.detail}`);
  }
  const validate = createCompiler().compile(gated.priced);
  return (data) => checkData(validate, data);
}

function clipped(text: string): string {
  return text.length <= PROBLEM_TEXT_MAX ? text : `${text.slice(0, PROBLEM_TEXT_MAX - 1)}…`;
}

function problemsOf(errors: readonly ErrorObject[]): readonly FieldProblem[] {
  return fieldProblems(errors.slice(0, PROBLEMS_MAX)).map(({ pointer, code, detail }) => ({
    pointer: clipped(`/data${pointer}`),
    code,
    detail: clipped(detail),
  }));
}

function checkData(validate: ValidateFunction, data: unknown): readonly FieldProblem[] {
  stepsLeft = STEPS_MAX;
  try {
    return validate(data) ? [] : problemsOf(validate.errors ?? []);
  } catch (error) {
    // References that call each other can run out of stack before they run out of steps.
    if (error instanceof TooManySteps || error instanceof RangeError) {
      return [
        { pointer: "/data", code: "too_complex", detail: "takes too many steps to check against its schema" },
      ];
    }
    throw error;
  }
}
