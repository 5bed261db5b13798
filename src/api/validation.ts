/**
 * Schema checks with Ajv: bodies and headers as they are, query strings with numbers read from text. Nothing is
 * removed or changed silently.
 */
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from "ajv";
import type { FastifySchemaValidationError } from "fastify";
import type { FieldProblem } from "../errors.ts";
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
/** Up to this size every fault of a body is reported; a larger body could hold millions, so only the first is. */
const ALL_ERRORS_BODY_LIMIT = 65_536;
const REPORTED_PROBLEMS_MAX = 50;

function createAjv(options: Options): Ajv {
  // An opaque member is a RawJson, whatever it holds: its own kind decides, not that of the wrapper.
  return new Ajv({ ...STRICT, ...options })
    .addKeyword({
      keyword: "x-opaque",
      validate: (kinds: string, data: unknown) =>
        data instanceof RawJson && kinds.split(" or ").includes(data.kind),
    })
    .addVocabulary(["x-wanted", "x-shown"]);
}

const firstFault = createAjv({});
const everyFault = createAjv({ allErrors: true });

/** What a double holds exactly; what is larger stays a text, and is refused as one. */
const WHOLE_NUMBER = /^\d{1,16}$/;

/** A check of texts: plain digits count as numbers where one is wanted (Ajv would also take 1e1 and Infinity). */
function fromText(schema: object): QueryCheck {
  const { properties = {} } = schema as { properties?: Readonly<Record<string, { type?: string }>> };
  const numbers = Object.keys(properties).filter((name) => properties[name]?.type === "integer");
  const validate = everyFault.compile(schema);
  const check: QueryCheck = (query: Record<string, unknown>) => {
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

interface QueryCheck {
  (query: Record<string, unknown>): boolean;
  errors?: ErrorObject[] | null;
}

interface RouteSchema {
  readonly schema: object;
  readonly method: string;
  readonly url: string;
  readonly httpPart?: string;
}

/**
 * Makes the compiler that Fastify asks for each part of each route.
 *
 * @param bodyLimitOf the body limit, in bytes, of the route with this method and URL
 */
export function createValidatorCompiler(
  bodyLimitOf: (method: string, url: string) => number,
): (route: RouteSchema) => ValidateFunction | QueryCheck {
  return ({ schema, method, url, httpPart }) => {
    if (httpPart === "querystring") {
      return fromText(schema);
    }
    const small = httpPart === "body" && bodyLimitOf(method, url) <= ALL_ERRORS_BODY_LIMIT;
    return (small ? everyFault : firstFault).compile(schema);
  };
}

function escapePointer(member: string): string {
  return member.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** Codes of faults whose keyword is no word for the caller. */
const CODES: Readonly<Record<string, string>> = {
  additionalProperties: "unknown_member",
  "x-opaque": "type",
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
  const validate = everyFault.compile(schema);
  return (value) => (validate(value) ? [] : fieldProblems(validate.errors ?? []));
}
