/**
 * Schema checks with Ajv: bodies and headers as they are, query strings with numbers read from text. Nothing is
 * removed or changed silently.
 */
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from "ajv";
import type { FastifySchemaValidationError } from "fastify";
import type { FieldProblem } from "../domain/errors.ts";
import { meantFaults } from "./fault-branches.ts";
import { faultSentence } from "./fault-words.ts";
import { RawJson } from "./strict-json.ts";

const STRICT: Options = {
  removeAdditional: false,
  coerceTypes: false,
  useDefaults: true,
  strict: true,
  verbose: true,
};
/** Every fault of a value is told that has so many parts at most; one of millions could have millions. */
const TOLD_PARTS_MAX = 1_000;
const REPORTED_PROBLEMS_MAX = 50;

function createAjv(options: Options): Ajv {
  // An opaque member is a RawJson, whatever it holds: its own kind decides, not that of the wrapper.
  return new Ajv({ ...STRICT, ...options })
    .addKeyword({
      keyword: "x-opaque",
      validate: (kinds: string, data: unknown) =>
        data instanceof RawJson && kinds.split(" or ").includes(data.kind),
    })
    .addKeyword({
      keyword: "x-opaque-depth",
      validate: (_limited: boolean, data: unknown) =>
        !(data instanceof RawJson) || data.exceededDepth === undefined,
    })
    .addVocabulary(["x-wanted", "x-shown", "x-noun"]);
}

const firstFault = createAjv({});
const everyFault = createAjv({ allErrors: true });

/** What a double holds exactly; what is larger stays a text, and is refused as one. */
const WHOLE_NUMBER = /^\d{1,16}$/;

/** A check in the form that Fastify wants. */
interface Check {
  (value: unknown): boolean;
  errors?: ErrorObject[] | null;
}

function hasFewParts(value: unknown): boolean {
  let parts = 0;
  const rest = [value];
  while (rest.length > 0) {
    const part = rest.pop();
    if (typeof part === "object" && part !== null && !(part instanceof RawJson)) {
      const inside: readonly unknown[] = Array.isArray(part) ? part : Object.values(part);
      parts += inside.length;
      if (parts > TOLD_PARTS_MAX) {
        return false;
      }
      rest.push(...inside);
    }
  }
  return true;
}

/** Looks for the first fault, and for all of them where there is one and the value is small. */
function compile(schema: object): Check {
  const first = firstFault.compile(schema);
  let every: ValidateFunction | undefined;
  const check: Check = (value) => {
    const valid = first(value);
    check.errors = first.errors ?? null;
    if (!valid && hasFewParts(value)) {
      every ??= everyFault.compile(schema);
      every(value);
      check.errors = every.errors ?? check.errors;
    }
    return valid;
  };
  return check;
}

/** A check of texts: plain digits count as numbers where one is wanted (Ajv would also take 1e1 and Infinity). */
function fromText(schema: object): Check {
  const { properties = {} } = schema as { properties?: Readonly<Record<string, { type?: string }>> };
  const numbers = Object.keys(properties).filter((name) => properties[name]?.type === "integer");
  const validate = compile(schema);
  const check: Check = (value) => {
    const query = value as Record<string, unknown>;
    for (const name of numbers) {
      const text = query[name];
      if (typeof text === "string" && WHOLE_NUMBER.test(text) && Number.isSafeInteger(Number(text))) {
        query[name] = Number(text);
      }
    }
    const valid = validate(query);
    check.errors = validate.errors ?? null;
    return valid;
  };
  return check;
}

/** The compiler that Fastify asks for each part of each route. */
export function compileValidator({
  schema,
  httpPart,
}: {
  readonly schema: object;
  readonly httpPart?: string;
}): Check {
  return httpPart === "querystring" ? fromText(schema) : compile(schema);
}

function escapePointer(member: string): string {
  return member.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** Codes of faults whose keyword is no word for the caller. */
const CODES: Readonly<Record<string, string>> = {
  additionalProperties: "unknown_member",
  "x-opaque": "type",
  "x-opaque-depth": "max_depth",
};
/** The parameter of a fault that names the member it is about. */
const MEMBER_OF: Readonly<Record<string, string>> = {
  required: "missingProperty",
  additionalProperties: "additionalProperty",
  propertyNames: "propertyName",
};
/** Characters of a member's name that a pointer repeats. */
const MEMBER_NAME_MAX = 128;

function fieldProblem(fault: ErrorObject): FieldProblem {
  const { instancePath, keyword, params, parentSchema } = fault;
  const code = CODES[keyword] ?? keyword.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  // Without the schema (not ours, but a tenant's own) Ajv's sentence is all there is.
  const detail = parentSchema === undefined ? (fault.message ?? "is not valid") : faultSentence(fault);
  const naming = MEMBER_OF[keyword];
  if (naming === undefined) {
    return { pointer: instancePath, code, detail };
  }
  const name = String(params[naming]);
  return name.length > MEMBER_NAME_MAX && parentSchema !== undefined
    ? { pointer: instancePath, code, detail: `has a member of ${name.length} characters that ${detail}` }
    : { pointer: `${instancePath}/${escapePointer(name)}`, code, detail };
}

/** What Ajv found, in the catalogue's terms: JSON pointer, code, sentence. */
export function fieldProblems(faults: readonly FastifySchemaValidationError[]): FieldProblem[] {
  return meantFaults(faults as readonly ErrorObject[])
    .slice(0, REPORTED_PROBLEMS_MAX)
    .map(fieldProblem);
}

/** A check of one value that is not a request's whole body: what is wrong with it, nothing when it is right. */
export function createValueCheck(schema: object): (value: unknown) => FieldProblem[] {
  const validate = compile(schema);
  return (value) => (validate(value) ? [] : fieldProblems(validate.errors ?? []));
}
