/**
 * Checks `data` with the schemas of tenants (JSON Schema draft 2020-12), within a budget of steps. Schemas are
 * untrusted, so they pass the gate first. They never become code: each subschema becomes a function that calls the
 * checks of its keywords. Regular expressions run in linear time (RE2). An evaluation that runs out of steps is a
 * rejection.
 */
import type { FieldProblem } from "#domain/errors.ts";
import { newPattern, type Pattern, PatternProblem, storedPattern } from "./patterns.ts";
import { APPLICATORS, type Sub, type Subs, UNEVALUATED } from "./schema-applicators.ts";
import { ASSERTIONS, matching } from "./schema-assertions.ts";
import { gateSchema, LIST, NAMED, ONE, targetOf, under } from "./schema-gate.ts";
import { type Check, Run, Seen, TooManySteps } from "./schema-run.ts";

type Json = Readonly<Record<string, unknown>>;

/** Returns the problems of `data`; empty if it is valid. Pointers begin with `/data`. */
export type CheckData = (data: unknown) => readonly FieldProblem[];

/** Returns why a new schema may not have an expression. */
function patternFault(source: string, searched: Set<string>): string | undefined {
  try {
    newPattern(source, searched);
    return undefined;
  } catch (error) {
    if (error instanceof PatternProblem) {
      return error.message;
    }
    throw error;
  }
}

/**
 * Returns the problems of a schema as a JSON Schema. Pointers are relative to the schema.
 *
 * @param schema as parsed by `parseExactJson`
 */
export function schemaProblems(schema: unknown): readonly FieldProblem[] {
  const searched = new Set<string>();
  const problem = gateSchema(schema, (source) => patternFault(source, searched));
  return problem === undefined ? [] : [problem];
}

/** Only these keywords need to know what the others have evaluated. */
const UNEVALUATED_NAMES = ["unevaluatedItems", "unevaluatedProperties"];

const accepted: Check = (_value, run) => {
  // Else `items: true` would look at every item for nothing.
  run.spend(1);
  return true;
};
const refused: Check = (_value, run) => run.fail("false schema", "boolean schema is false");

/** Compiles a schema that has passed the gate. */
class Compiler {
  readonly #byPointer = new Map<string, Check>();
  readonly #patterns = new Map<string, Pattern>();

  compile(schema: unknown, pointer: string): Sub {
    const check =
      typeof schema === "boolean" ? (schema ? accepted : refused) : this.#object(schema as Json, pointer);
    this.#byPointer.set(pointer, check);
    return { check, isFalse: schema === false };
  }

  #object(schema: Json, pointer: string): Check {
    const subs = this.#subs(schema, pointer);
    const applied = [...APPLICATORS, ...UNEVALUATED].flatMap((create) => create(subs, schema) ?? []);
    const checks = [...this.#assertions(schema), ...applied];
    const needsSeen = UNEVALUATED_NAMES.some((name) => Object.hasOwn(schema, name));
    return (value, run, seen) => {
      run.spend(1);
      const own = needsSeen ? new Seen() : seen;
      const passes = run.every(checks, (check) => check(value, run, own));
      if (needsSeen && own !== undefined) {
        seen?.add(own, run);
      }
      return passes;
    };
  }

  #assertions(schema: Json): readonly Check[] {
    return Object.entries(schema).flatMap(([keyword, wanted]) => {
      if (keyword === "pattern") {
        return [matching(this.#pattern(String(wanted)))];
      }
      return Object.hasOwn(ASSERTIONS, keyword) ? [ASSERTIONS[keyword]?.(wanted as never) ?? accepted] : [];
    });
  }

  #pattern(source: string): Pattern {
    const pattern = this.#patterns.get(source) ?? storedPattern(source);
    this.#patterns.set(source, pattern);
    return pattern;
  }

  /** Compiles all subschemas, also those that only references reach. */
  #subs(schema: Json, pointer: string): Subs {
    const one = new Map<string, Sub>();
    const list = new Map<string, readonly Sub[]>();
    const named = new Map<string, readonly (readonly [string, Sub])[]>();
    for (const [keyword, value] of Object.entries(schema)) {
      const place = under(pointer, keyword);
      if (ONE.has(keyword)) {
        one.set(keyword, this.compile(value, place));
      } else if (LIST.has(keyword)) {
        const parts = (value as readonly unknown[]).map((part, index) =>
          this.compile(part, under(place, index)),
        );
        list.set(keyword, parts);
      } else if (NAMED.has(keyword)) {
        const parts = Object.entries(value as Json).map(
          ([name, part]) => [name, this.compile(part, under(place, name))] as const,
        );
        named.set(keyword, parts);
      }
    }
    return {
      one: (keyword) => one.get(keyword),
      list: (keyword) => list.get(keyword),
      named: (keyword) => named.get(keyword),
      pattern: (source) => this.#pattern(source),
      referenced: (reference) => this.#referenced(targetOf(reference) ?? ""),
    };
  }

  /** Returns the check of a schema that may not be compiled yet. */
  #referenced(target: string): Check {
    let check: Check | undefined;
    return (value, run, seen) => {
      check ??= this.#byPointer.get(target) ?? refused;
      return check(value, run, seen);
    };
  }
}

/**
 * Compiles a schema for which {@link schemaProblems} returned no problem, now or in an earlier version.
 *
 * @param schema as parsed by `parseExactJson`
 * @throws Error if there is one
 */
export function compileSchema(schema: unknown): CheckData {
  const problem = gateSchema(schema, () => undefined);
  if (problem !== undefined) {
    throw new Error(`a schema cannot be used: ${problem.pointer} ${problem.detail}`);
  }
  const { check } = new Compiler().compile(schema, "");
  return (data) => problemsOf(check, data);
}

function problemsOf(check: Check, data: unknown): readonly FieldProblem[] {
  const run = new Run();
  try {
    check(data, run, undefined);
  } catch (error) {
    // References that call each other can run out of stack before they run out of steps.
    if (!(error instanceof TooManySteps || error instanceof RangeError)) {
      throw error;
    }
    run.giveUp();
  }
  return run.problems;
}
