/**
 * Schema validation with Ajv. Only query strings have numbers converted from text; nothing is removed or changed
 * silently.
 */
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from "ajv";
import type { FastifySchemaValidationError } from "fastify";
import type { FieldProblem } from "#domain/errors.ts";
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
/**
 * Maximum parts of a value whose faults are all reported; a value with millions of parts could have millions of faults.
 */
const REPORTED_PARTS_MAX = 1_000;
const REPORTED_PROBLEMS_MAX = 50;

function createAjv(options: Options): Ajv {
  // An opaque member is always a RawJson object, so check the kind of its JSON instead.
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
    .addVocabulary(["x-wanted", "x-shown", "x-noun", "x-takes", "x-name", "x-documented"]);
}

const firstFault = createAjv({});
const everyFault = createAjv({ allErrors: true });

/** Integers that may fit a double exactly; a larger one stays a string and is rejected as such. */
const WHOLE_NUMBER = /^\d{1,16}$/;

/** A validator with Fastify's interface. */
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
      if (parts > REPORTED_PARTS_MAX) {
        return false;
      }
      rest.push(...inside);
    }
  }
  return true;
}

/**
 * Returns a check that stops at the first fault, and then collects all faults if the value is small. Its first use
 * compiles it: an api has hundreds, which would take most of the time of its start.
 */
function compile(schema: object): Check {
  let first: ValidateFunction | undefined;
  let every: ValidateFunction | undefined;
  const check: Check = (value) => {
    first ??= firstFault.compile(schema);
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

/**
 * Compiles a check of query parameters, which accepts plain digits as integers (Ajv would also accept 1e1 and
 * Infinity).
 */
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

/** Compiles the validator of a part of a route, for Fastify. */
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

/** Codes that differ from the schema keyword. */
const CODES: Readonly<Record<string, string>> = {
  additionalProperties: "unknown_member",
  "x-opaque": "type",
  "x-opaque-depth": "max_depth",
};
/** By keyword, the Ajv parameter with the member's name. */
const MEMBER_OF: Readonly<Record<string, string>> = {
  required: "missingProperty",
  additionalProperties: "additionalProperty",
  propertyNames: "propertyName",
};
/** Maximum length of a member's name in a pointer, in characters. */
const MEMBER_NAME_MAX = 128;

function fieldProblem(fault: ErrorObject): FieldProblem {
  const { instancePath, keyword, params, parentSchema } = fault;
  const code = CODES[keyword] ?? keyword.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  // Without `parentSchema`, as for a tenant's own schema, use Ajv's message.
  const detail = parentSchema === undefined ? (fault.message ?? "is invalid") : faultSentence(fault);
  const naming = MEMBER_OF[keyword];
  if (naming === undefined) {
    return { pointer: instancePath, code, detail };
  }
  const name = String(params[naming]);
  return name.length > MEMBER_NAME_MAX && parentSchema !== undefined
    ? { pointer: instancePath, code, detail: `has a member of ${name.length} characters that ${detail}` }
    : { pointer: `${instancePath}/${escapePointer(name)}`, code, detail };
}

/** Converts Ajv's faults to field problems: JSON pointer, code, sentence. */
export function fieldProblems(faults: readonly FastifySchemaValidationError[]): FieldProblem[] {
  return meantFaults(faults as readonly ErrorObject[])
    .slice(0, REPORTED_PROBLEMS_MAX)
    .map(fieldProblem);
}

/** Creates a check of a single value, which returns its problems, or an empty list if it is valid. */
export function createValueCheck(schema: object): (value: unknown) => FieldProblem[] {
  const validate = compile(schema);
  return (value) => (validate(value) ? [] : fieldProblems(validate.errors ?? []));
}
