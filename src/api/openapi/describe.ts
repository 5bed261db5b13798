/** Adds examples, errors and webhooks to the document, which schemas cannot express. */
import { IDEMPOTENCY_HOURS } from "#domain/idempotency.ts";
import type { FastifyContextConfig } from "fastify";
import { Components, inPascalCase } from "./components.ts";
import { ERROR_SCHEMAS, errorExamples, errorResponses, type OperationTraits } from "./errors.ts";
import { type DocumentedSchema, exampleOf } from "./examples.ts";
import { linkOperations } from "./links.ts";
import type { Sdk } from "./sdk.ts";

interface Media {
  schema?: DocumentedSchema;
  example?: unknown;
  examples?: Record<string, unknown>;
}

interface Content {
  description?: string;
  required?: boolean;
  content?: Record<string, Media>;
  links?: Record<string, object>;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  description?: string;
  schema?: DocumentedSchema;
  example?: unknown;
}

/** An operation generated from the routes' schemas; completed in place. */
export interface Operation {
  operationId?: string;
  tags?: readonly string[];
  summary?: string;
  description?: string;
  security?: readonly Readonly<Record<string, readonly string[]>>[];
  parameters?: Parameter[];
  requestBody?: Content;
  responses: Record<string, Content>;
  /** The declaration of the route; removed from the document. */
  "x-documentation"?: FastifyContextConfig;
  /** The methods of the SDKs, for their generators. */
  "x-sdk"?: Sdk;
}

export interface Document {
  paths: Record<string, Record<string, Operation>>;
  components?: { schemas?: Record<string, unknown>; [section: string]: unknown };
  webhooks?: Record<string, object>;
  tags?: readonly { readonly name: string }[];
  [section: string]: unknown;
}

const STATUS_TEXTS: Readonly<Record<string, string>> = {
  "200": "Success",
  "201": "Created; secrets are shown only in this response",
  "202": "Accepted",
  "204": "Success, without a body",
};

const PARAMETER_TEXTS: Readonly<Record<string, string>> = {
  limit: "Maximum number of items per page",
  cursor:
    "`next_cursor` of the previous page. A page with filters may have fewer items than `limit`, or none, and a `next_cursor`: the list ends where that is null",
  from: "Start of the range",
  to: "End of the range",
  state: "Returns only items in this state",
  event_type: "Returns only items of this event type",
  endpoint_id: "Returns only items of this endpoint",
  event_id: "Returns only items of this event",
  last_error: "Returns only items whose last attempt failed with this error",
  last_status: "Returns only items whose last attempt got this HTTP status",
  reason: "Returns only dead letters with this reason",
  type: "Returns only items of this type",
  idx: "Index of the entry in the log",
  size: "Size of the tree, in entries",
  name: "Name of the event type",
  "idempotency-key": `For ${IDEMPOTENCY_HOURS} hours, a repeated request with the same key gets the same response`,
};

const VALIDATORS_OWN: ReadonlySet<string> = new Set([
  "x-opaque",
  "x-opaque-depth",
  "x-wanted",
  "x-shown",
  "x-noun",
  "x-takes",
]);

/** Returns the schema as the document shows it, without the keywords that only the service's own validator knows. */
function plain<T>(value: T): T {
  if (Array.isArray(value)) {
    return value.map((item: unknown) => plain(item)) as T;
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  const { "x-documented": documented = {}, ...others } = value as Readonly<Record<string, unknown>>;
  const members = Object.entries({ ...others, ...(documented as object) })
    .filter(([name, member]) => !VALIDATORS_OWN.has(name) && member !== undefined)
    .map(([name, member]) => [name, plain(member)]);
  const opaque = Object.hasOwn(value, "x-opaque") ? { additionalProperties: true } : {};
  return { ...Object.fromEntries(members), ...opaque } as T;
}

const INT32_MAX = 2_147_483_647;
/** Members of schemas and media whose values are no schemas. */
const VALUES: ReadonlySet<string> = new Set(["example", "examples", "default", "enum", "required"]);

/**
 * Returns the document with `format: int64` at each integer that may exceed 32 bits: generators of clients take an
 * integer without a format for 32 bits.
 *
 * @param isMap whether the keys of `value` are names of members
 */
function withFormats<T>(value: T, isMap = false): T {
  if (Array.isArray(value)) {
    return value.map((item: unknown) => withFormats(item)) as T;
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  const parts = Object.entries(value).map(([key, part]: [string, unknown]) => [
    key,
    !isMap && VALUES.has(key) ? part : withFormats(part, !isMap && key === "properties"),
  ]);
  const { type, maximum = Number.POSITIVE_INFINITY } = value as DocumentedSchema;
  const isLarge = !isMap && type === "integer" && (maximum as number) > INT32_MAX;
  return { ...Object.fromEntries(parts), ...(isLarge ? { format: "int64" } : {}) } as T;
}

function callerOf({ security }: Operation): OperationTraits["caller"] {
  const names = (security ?? []).flatMap((requirement) => Object.keys(requirement));
  return names.includes("operator") ? "operator" : names.includes("bearer") ? "tenant" : "anybody";
}

function describeParameters({ parameters = [] }: Operation): void {
  for (const parameter of parameters) {
    if (parameter.in === "query" && parameter.schema?.type === "object") {
      Object.assign(parameter, { style: "deepObject", explode: true });
    }
    parameter.description ??= PARAMETER_TEXTS[parameter.name] ?? parameter.schema?.description ?? "";
    if (parameter.description === "") {
      delete parameter.description;
    }
    if (parameter.example === undefined && parameter.schema !== undefined) {
      parameter.example =
        parameter.name === "idempotency-key"
          ? "order-4711"
          : exampleOf(parameter.schema, "all", parameter.name);
    }
  }
}

function describeRequest(operation: Operation, text: FastifyContextConfig): void {
  if (text.documentedBody !== undefined) {
    operation.requestBody = {
      required: true,
      content: { "application/json": { schema: text.documentedBody } },
    };
  }
  if (operation.requestBody !== undefined && text.optionalBody === true) {
    operation.requestBody.required = false;
  }
  for (const media of Object.values(operation.requestBody?.content ?? {})) {
    delete media.example;
    const given = text.requestExamples ?? {
      "required members": exampleOf(media.schema ?? {}, "required"),
    };
    media.examples = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, { value }]));
  }
}

function describeAnswers(operation: Operation, text: FastifyContextConfig): void {
  for (const [status, answer] of Object.entries(operation.responses)) {
    answer.description = STATUS_TEXTS[status] ?? "Success";
    if (status === "200" && text.documentedResponse !== undefined) {
      answer.content = { [text.responseType ?? "application/json"]: { schema: text.documentedResponse } };
    }
    for (const media of Object.values(answer.content ?? {})) {
      media.example = text.responseExample ?? exampleOf(media.schema ?? {});
      delete media.examples;
    }
    if (status === "200" && text.csvExample !== undefined) {
      answer.content = {
        ...answer.content,
        "text/csv": { schema: { type: "string" }, example: text.csvExample },
      };
    }
  }
}

/**
 * Makes the schema of the lowest success one of all successes' bodies: OpenAPI Generator reads each success as that of the
 * lowest status.
 */
function coverSuccesses({ responses }: Operation): void {
  const media = Object.entries(responses).flatMap(([status, { content = {} }]) =>
    status.startsWith("2") ? (content["application/json"] ?? []) : [],
  );
  const [lowest] = media;
  if (lowest !== undefined && media.length > 1) {
    const bodies = media.flatMap(({ schema = {} }) => schema.anyOf ?? [schema]);
    lowest.schema = { "x-name": bodies.map((body) => body["x-name"]).join("Or"), anyOf: bodies };
  }
}

function describeOperation(operation: Operation, method: string, path: string): void {
  const { "x-documentation": text = {} } = operation;
  delete operation["x-documentation"];
  if (text.sdk !== undefined) {
    operation["x-sdk"] = text.sdk;
  }
  describeParameters(operation);
  describeRequest(operation, text);
  describeAnswers(operation, text);
  coverSuccesses(operation);
  Object.assign(
    operation.responses,
    errorResponses({
      method,
      path,
      caller: callerOf(operation),
      takesBody: operation.requestBody !== undefined,
      own: text.errors ?? [],
    }),
  );
}

/** Moves the schemas of an operation to the components. */
function nameSchemas(
  { operationId = "", parameters = [], requestBody, responses }: Operation,
  components: Components,
): void {
  const place = inPascalCase(operationId);
  for (const parameter of parameters) {
    if (parameter.schema !== undefined) {
      parameter.schema = components.refer(parameter.schema, `${place}${inPascalCase(parameter.name)}`);
    }
  }
  const bodies = [requestBody, ...Object.values(responses)].flatMap((body) =>
    Object.values(body?.content ?? {}),
  );
  for (const media of bodies) {
    if (media.schema !== undefined) {
      media.schema = components.refer(media.schema, `${place}Body`);
    }
  }
}

/** Returns the paths in the order of the tags; within a tag, in the order of registration. */
function inReadingOrder({ paths, tags = [] }: Document): Document["paths"] {
  const rankOf = (operations: Record<string, Operation>): number => {
    const [tag] = Object.values(operations)[0]?.tags ?? [];
    return tags.findIndex(({ name }) => name === tag);
  };
  return Object.fromEntries(Object.entries(paths).toSorted(([, a], [, b]) => rankOf(a) - rankOf(b)));
}

export interface Description {
  /** Base URL of the problem types. */
  readonly baseUrl: string;
  readonly webhooks?: Record<string, object>;
}

/** Returns `routes` completed with examples and errors. */
export function describe(routes: Document, { baseUrl, webhooks }: Description): Document {
  linkOperations(routes);
  const document = plain(routes);
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      describeOperation(operation, method.toUpperCase(), path);
    }
  }
  document.paths = inReadingOrder(document);
  const components = new Components();
  for (const operation of Object.values(document.paths).flatMap((operations) => Object.values(operations))) {
    nameSchemas(operation, components);
  }
  document.components = {
    ...document.components,
    schemas: { ...components.all(), ...ERROR_SCHEMAS },
    examples: errorExamples(baseUrl),
  };
  if (webhooks !== undefined) {
    // Inline: oapi-codegen drops components that only webhooks use, but not the references to them.
    document.webhooks = webhooks;
  }
  return withFormats(document);
}
