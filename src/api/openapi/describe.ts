/** Adds to the document what schemas do not say: texts, examples, errors, what receivers get. */
import { OAUTH_PATHS } from "../../http/oauth-error.ts";
import { namedSchemas, withReferences } from "./components.ts";
import {
  connectionResponses,
  ERROR_SCHEMAS,
  errorExamples,
  errorResponses,
  type OperationTraits,
} from "./errors.ts";
import { type DocumentedSchema, exampleOf } from "./examples.ts";
import type { OperationText, OperationTexts } from "./operation.ts";

interface Media {
  schema?: DocumentedSchema;
  example?: unknown;
  examples?: Record<string, unknown>;
}

interface Content {
  description?: string;
  required?: boolean;
  content?: Record<string, Media>;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  description?: string;
  schema?: DocumentedSchema;
  example?: unknown;
}

/** An operation as the routes' schemas make it; completed in place. */
export interface Operation {
  operationId?: string;
  tags?: readonly string[];
  summary?: string;
  description?: string;
  security?: readonly Readonly<Record<string, readonly string[]>>[];
  parameters?: Parameter[];
  requestBody?: Content;
  responses: Record<string, Content>;
}

export interface Document {
  paths: Record<string, Record<string, Operation>>;
  components?: { schemas?: Record<string, unknown>; [section: string]: unknown };
  webhooks?: Record<string, object>;
  tags?: readonly { readonly name: string }[];
  [section: string]: unknown;
}

const STATUS_TEXTS: Readonly<Record<string, string>> = {
  "200": "Done",
  "201": "Created; what is secret in it is shown once",
  "202": "Accepted",
  "204": "Done; there is nothing to say",
};

const PARAMETER_TEXTS: Readonly<Record<string, string>> = {
  limit: "Most items of a page",
  cursor: "`next_cursor` of the page before",
  from: "From here on",
  to: "Up to here",
  state: "In this state only",
  event_type: "Of this type only",
  endpoint_id: "To this endpoint only",
  event_id: "Of this event only",
  last_error: "Whose last attempt failed so",
  last_status: "Whose last attempt was answered so",
  reason: "Dead letters for this reason only",
  type: "Of this type only",
  idx: "Place in the log",
  size: "Of the tree with so many entries",
  name: "The event type's name",
  "idempotency-key": "For 24 hours, the same request with the same key gets the same answer",
};

const FORMS = ["application/json", "application/x-www-form-urlencoded"] as const;

const VALIDATORS_OWN: ReadonlySet<string> = new Set([
  "x-opaque",
  "x-opaque-depth",
  "x-wanted",
  "x-shown",
  "x-noun",
]);

/** A schema without what only the service's own validator knows. */
function plain<T>(value: T): T {
  if (Array.isArray(value)) {
    return value.map((item: unknown) => plain(item)) as T;
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  const members = Object.entries(value)
    .filter(([name]) => !VALIDATORS_OWN.has(name))
    .map(([name, member]) => [name, plain(member as unknown)]);
  const opaque = Object.hasOwn(value, "x-opaque") ? { additionalProperties: true } : {};
  return { ...Object.fromEntries(members), ...opaque } as T;
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

function describeRequest(operation: Operation, path: string, text: OperationText | undefined): void {
  if (text?.body !== undefined) {
    const media = { schema: text.body };
    operation.requestBody = {
      required: true,
      content: Object.fromEntries(
        (OAUTH_PATHS.has(path) ? FORMS : FORMS.slice(0, 1)).map((type) => [type, { ...media }]),
      ),
    };
  }
  for (const media of Object.values(operation.requestBody?.content ?? {})) {
    delete media.example;
    const given = text?.requests ?? { "what is required": exampleOf(media.schema ?? {}, "required") };
    media.examples = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, { value }]));
  }
}

function describeAnswers(operation: Operation, text: OperationText | undefined): void {
  for (const [status, answer] of Object.entries(operation.responses)) {
    answer.description = STATUS_TEXTS[status] ?? "Done";
    if (status === "200" && text?.answer !== undefined) {
      answer.content = { [text.answerType ?? "application/json"]: { schema: text.answer } };
    }
    for (const media of Object.values(answer.content ?? {})) {
      media.example = text?.answered ?? exampleOf(media.schema ?? {});
      delete media.examples;
    }
  }
}

function describeOperation(
  operation: Operation,
  [method, path]: [string, string],
  texts: OperationTexts,
): void {
  const text = texts[`${method} ${path}`];
  if (text !== undefined) {
    operation.operationId = text.id;
    operation.summary = text.summary;
    operation.description = text.description;
  }
  describeParameters(operation);
  describeRequest(operation, path, text);
  describeAnswers(operation, text);
  Object.assign(
    operation.responses,
    errorResponses({
      method,
      path,
      caller: callerOf(operation),
      takesBody: operation.requestBody !== undefined,
      own: text?.errors ?? [],
    }),
  );
}

/** Paths by the order of the tags; within a tag as the routes were registered. */
function inReadingOrder({ paths, tags = [] }: Document): Document["paths"] {
  const rankOf = (operations: Record<string, Operation>): number => {
    const [tag] = Object.values(operations)[0]?.tags ?? [];
    return tags.findIndex(({ name }) => name === tag);
  };
  return Object.fromEntries(Object.entries(paths).toSorted(([, a], [, b]) => rankOf(a) - rankOf(b)));
}

export interface Description {
  readonly texts: OperationTexts;
  /** The address that problem types live under. */
  readonly baseUrl: string;
  readonly webhooks?: Record<string, object>;
}

/** The document that `routes` becomes with the texts, examples and errors. */
export function describe(routes: Document, { texts, baseUrl, webhooks }: Description): Document {
  const document = plain(routes);
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      describeOperation(operation, [method.toUpperCase(), path], texts);
    }
  }
  document.paths = inReadingOrder(document);
  const named = namedSchemas(document.paths);
  const names = new Map(Object.entries(named).map(([name, schema]) => [JSON.stringify(schema), name]));
  document.paths = withReferences(document.paths, names);
  document.components = {
    ...document.components,
    schemas: { ...named, ...ERROR_SCHEMAS },
    examples: errorExamples(baseUrl),
    responses: connectionResponses(),
  };
  if (webhooks !== undefined) {
    document.webhooks = webhooks;
  }
  return document;
}
