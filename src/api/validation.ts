/**
 * Schema checks with Ajv: bodies and headers as they are, query strings with numbers read from text. Nothing is
 * removed or changed silently.
 */
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from "ajv";
import type { FastifySchemaValidationError } from "fastify";
import type { FieldProblem } from "../errors.ts";
import { RawJson } from "./strict-json.ts";

const STRICT: Options = { removeAdditional: false, coerceTypes: false, useDefaults: true, strict: true };
/** Up to this size every fault of a body is reported; a larger body could hold millions, so only the first is. */
const ALL_ERRORS_BODY_LIMIT = 65_536;
const REPORTED_PROBLEMS_MAX = 50;

function createAjv(options: Options): Ajv {
  // An opaque member is a RawJson, whatever it holds: its own kind decides, not that of the wrapper.
  return new Ajv({ ...STRICT, ...options }).addKeyword({
    keyword: "x-opaque",
    validate: (kinds: string, data: unknown) =>
      data instanceof RawJson && kinds.split(" or ").includes(data.kind),
    error: { message: ({ schema }) => `must be ${String(schema)}` },
  });
}

const firstFault = createAjv({});
const everyFault = createAjv({ allErrors: true });

const WHOLE_NUMBER = /^\d{1,9}$/;

/** A check of texts: plain digits count as numbers where one is wanted (Ajv would also take 1e1 and Infinity). */
function fromText(schema: object): QueryCheck {
  const { properties = {} } = schema as { properties?: Readonly<Record<string, { type?: string }>> };
  const numbers = Object.keys(properties).filter((name) => properties[name]?.type === "integer");
  const validate = firstFault.compile(schema);
  const check: QueryCheck = (query: Record<string, unknown>) => {
    for (const name of numbers) {
      const text = query[name];
      if (typeof text === "string" && WHOLE_NUMBER.test(text)) {
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

function fieldProblem(fault: FastifySchemaValidationError): FieldProblem {
  const { instancePath, keyword, params } = fault;
  if (keyword === "required") {
    const pointer = `${instancePath}/${escapePointer(String(params["missingProperty"]))}`;
    return { pointer, code: "required", detail: "is required" };
  }
  if (keyword === "additionalProperties") {
    const pointer = `${instancePath}/${escapePointer(String(params["additionalProperty"]))}`;
    return { pointer, code: "unknown_member", detail: "is not known" };
  }
  if (keyword === "x-opaque") {
    return { pointer: instancePath, code: "type", detail: fault.message ?? "is not valid" };
  }
  const code = keyword.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return { pointer: instancePath, code, detail: fault.message ?? "is not valid" };
}

/** What Ajv found, in the catalogue's terms: JSON pointer, code, sentence. */
export function fieldProblems(faults: readonly FastifySchemaValidationError[]): FieldProblem[] {
  return faults.slice(0, REPORTED_PROBLEMS_MAX).map(fieldProblem);
}

/** A check of one value that is not a request's whole body: what is wrong with it, nothing when it is right. */
export function createValueCheck(schema: object): (value: unknown) => FieldProblem[] {
  const validate = everyFault.compile(schema);
  return (value) => (validate(value) ? [] : fieldProblems(validate.errors ?? []));
}
