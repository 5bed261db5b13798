/**
 * Compiles the schemas of tenants with Ajv and checks `data` with them, within a budget of steps. Schemas are hostile
 * until shown otherwise: they have passed the gate, regular expressions run in linear time (RE2), and an evaluation
 * that has used up its steps ends as a refusal.
 */
import { Ajv2020, type ErrorObject, type Options, type ValidateFunction } from "ajv/dist/2020.js";
import { RE2JS } from "re2js";
import { fieldProblems } from "../../http/validation.ts";
import { isSameJson } from "../../domain/json-equality.ts";
import type { FieldProblem } from "../../domain/errors.ts";
import { type Cost, DIALECT, gateSchema } from "./schema-gate.ts";

/** Steps of one evaluation; one is a visit of one subschema to one value, a member of a list, or 64 characters. */
const STEPS_MAX = 250_000;
/** Instructions of a compiled regular expression. */
const PATTERN_PROGRAM_MAX = 1_000;
/** An instruction for a character, so many to a step. */
const INSTRUCTIONS_PER_STEP = 32;
/** Characters of a pointer or a sentence of a problem: both can repeat what the event says. */
const PROBLEM_TEXT_MAX = 256;
const PROBLEMS_MAX = 20;

/** What is wrong with `data`, nothing when it fits. Pointers begin with `/data`. */
export type CheckData = (data: unknown) => readonly FieldProblem[];

class TooManySteps extends Error {}

/** Of the evaluation under way: they do not interleave. */
let stepsLeft = 0;

function spend(steps: number): void {
  stepsLeft -= steps;
  if (stepsLeft < 0) {
    throw new TooManySteps();
  }
}

/**
 * Linear is not quick: of each character an expression may have to follow all of its instructions, some 10 ns each, which
 * the fixed price is for only where they are few.
 */
function matching(instructions: number, { length }: string): number {
  return Math.floor((instructions * length) / INSTRUCTIONS_PER_STEP);
}

function charge({ visit, text, member, pattern }: Cost, value: unknown): boolean {
  let steps = visit;
  if (text > 0 && typeof value === "string") {
    steps += text * (1 + (value.length >> 6)) + matching(pattern.text, value);
  } else if (member > 0 && typeof value === "object" && value !== null && !Array.isArray(value)) {
    // Names are matched with patterns, as texts are.
    for (const name of Object.keys(value)) {
      steps += member * (1 + (name.length >> 6)) + matching(pattern.name, name);
    }
  }
  spend(steps);
  return true;
}

/** The same text for the same JSON value. */
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

/** Ajv compares each item with each other. */
function hasUniqueItems(wanted: boolean, items: readonly unknown[]): boolean {
  return !wanted || new Set(items.map(fingerprint)).size === items.length;
}

/**
 * In place of Ajv's, whose equality calls `valueOf` of the values that it compares: JSON can have a member of that name.
 */
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
    error: { message: "must not have an item twice" },
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
  // References are calls: a schema that repeats one a thousand times would become a thousand copies of its code.
  inlineRefs: false,
  // `constructor` and its like are members only where the event has them.
  ownProperties: true,
  loopRequired: 16,
  logger: false,
  // Its optimizer takes seconds for a schema of a thousand parts, and V8 does as well without.
  code: { regExp: linearTime, optimize: false },
};

/** One for each schema: a compiler keeps the names and values of all that it has compiled. */
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

/** What is wrong with a schema as a JSON Schema; pointers begin at the schema. */
export function schemaProblems(schema: unknown): readonly FieldProblem[] {
  const gated = gateSchema(schema, usablePattern);
  if ("problem" in gated) {
    return [gated.problem];
  }
  return metaSchema.validate(DIALECT, schema)
    ? unresolved(gated.priced)
    : fieldProblems(metaSchema.errors ?? []);
}

/** The faults that are left to the compiler: references to definitions that are not there. */
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
 * Compiles a schema that {@link schemaProblems} has found nothing wrong with.
 *
 * @throws Error when there is something
 */
export function compileSchema(schema: unknown): CheckData {
  // Whatever was accepted once.
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
        { pointer: "/data", code: "too_complex", detail: "takes too many steps to check by its schema" },
      ];
    }
    throw error;
  }
}
