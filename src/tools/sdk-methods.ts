/**
 * The methods of the SDKs, as their templates need them: from the operations of the OpenAPI document and what they declare
 * as `sdk` (src/api/openapi/sdk.ts). Nothing here knows a language.
 */
import type { Sdk, SdkLanguage, SdkMethod } from "#api/openapi/sdk.ts";
import { ATTEMPT_MAX, DEAD_LETTER_DAYS } from "#domain/retry-schedule.ts";
import {
  bodyOf,
  type Described,
  type Document,
  nameOf,
  nonNull,
  OMITTED,
  operationsOf,
  type Schema,
  withClientNames,
} from "./openapi-schema.ts";
import { capitalized } from "./text.ts";

/** What a resource holds, as the end of "Endpoints are …". */
const RESOURCES: Readonly<Record<string, string>> = {
  endpoints: "the destinations of webhooks",
  "endpoints.secrets": "the signing secrets of endpoints",
  eventTypes: "the types of events, with their schemas",
  events: "the published events",
  deliveries: "the deliveries of events to endpoints, and their attempts",
  deadLetters: `the deliveries that have failed ${ATTEMPT_MAX} times, for ${DEAD_LETTER_DAYS} days. A dead letter has the id of its delivery`,
  replays: "the jobs that deliver many again",
  portal: "the tenant's portal",
  credentials: "the tenant's own credentials",
  streams: "the streams of security events (OpenID Shared Signals Framework 1.0)",
  compliance: "the tenant's compliance log",
};

/** An argument of a method. */
export interface Argument {
  /** In snake case. */
  readonly name: string;
  /** Its name on the wire. */
  readonly wire: string;
  readonly schema: Schema;
  readonly required: boolean;
}

/** The body of a request, as one argument or as several. */
export interface Body {
  readonly name: string;
  readonly schema: Schema;
  readonly optional: boolean;
  readonly members?: readonly Argument[];
}

/** `page`: a list that is read page by page. `data`, `array`: a list, within an object or alone. */
type Shape = "page" | "data" | "array" | "one" | "none";

export interface Method {
  readonly name: string;
  readonly sdk: SdkMethod;
  readonly operation: Described;
  readonly verb: string;
  readonly path: string;
  /** Parameters of the path, and the object's id, in order. */
  readonly ids: readonly Argument[];
  /** The ids that are in the query, and those that are in the body. */
  readonly idsInQuery: readonly Argument[];
  readonly idsInBody: readonly Argument[];
  readonly query: readonly Argument[];
  readonly body: Body | undefined;
  readonly shape: Shape;
  /** Schema of the answer, or of an item of it. */
  readonly answer: Schema;
  /** Whether the caller may set the Idempotency-Key, which makes a POST safe to repeat. */
  readonly isKeyed: boolean;
  /** Whether a POST is safe to repeat without a key. */
  readonly isRepeatable: boolean;
  /** Sentences without full stops; the first one begins with a verb in the imperative. */
  readonly sentences: readonly string[];
}

export interface Resource {
  /** In camel case, with that of its parent: `endpoints.secrets`. */
  readonly name: string;
  readonly text: string;
  readonly methods: readonly Method[];
}

/** Returns what operations declare; an operation without a declaration has none. */
function declaredMethods(sdk: Sdk | undefined): SdkMethod[] {
  const each = Array.isArray(sdk) ? (sdk as readonly (string | SdkMethod)[]) : [sdk as string | SdkMethod];
  return each.flatMap((one) =>
    typeof one === "string"
      ? { name: one as SdkMethod["name"] }
      : one !== undefined && "name" in one
        ? one
        : [],
  );
}

/** Returns sentences without their full stops. */
function sentencesOf(text: string): string[] {
  const flat = text.replaceAll("\n", " ").replace(/\.$/, "");
  return flat === "" ? [] : flat.split(/\. (?=[A-Z`])/);
}

class Reader {
  readonly #schemas: Readonly<Record<string, Schema>>;

  constructor(schemas: Readonly<Record<string, Schema>>) {
    this.#schemas = schemas;
  }

  #resolved(schema: Schema): Schema {
    const name = nameOf(schema);
    return name === undefined ? schema : (this.#schemas[name] ?? {});
  }

  /** Returns the alternative of this name. @throws Error if there is none */
  #chosen(schema: Schema, wanted: string | undefined): Schema {
    if (wanted === undefined || nameOf(schema) === wanted) {
      return schema;
    }
    const name = wanted.replace(/\[\]$/, "");
    const fits = (each: Schema): boolean => nameOf(name === wanted ? each : (each.items ?? {})) === name;
    const waiting = [...(this.#resolved(schema).anyOf ?? [])];
    for (const each of waiting) {
      if (fits(each)) {
        return each;
      }
      waiting.push(...(this.#resolved(each).anyOf ?? []));
    }
    throw new Error(`no alternative is ${wanted}`);
  }

  #answer({ responses }: Described, { returns }: SdkMethod): Pick<Method, "shape" | "answer"> {
    const media = Object.entries(responses).find(([status, each]) => status < "300" && each.content);
    const body =
      media === undefined
        ? undefined
        : (bodyOf(media[1]) ?? Object.values(media[1].content ?? {})[0]?.schema);
    if (body === undefined) {
      return { shape: "none", answer: {} };
    }
    const chosen = this.#chosen(body, returns);
    const { type, items, properties = {} } = this.#resolved(chosen);
    const list = properties["data"]?.items;
    if (type === "array") {
      return { shape: "array", answer: items ?? {} };
    }
    if (list !== undefined && "next_cursor" in properties) {
      return { shape: "page", answer: list };
    }
    return list !== undefined && Object.keys(properties).length === 1
      ? { shape: "data", answer: list }
      : { shape: "one", answer: chosen };
  }

  #body({ requestBody, route }: Described, sdk: SdkMethod): Body | undefined {
    const whole = bodyOf(requestBody);
    if (whole === undefined) {
      return undefined;
    }
    const schema = this.#chosen(whole, sdk.takes);
    const words = (nameOf(schema) ?? "").split(/(?=[A-Z])/);
    const name = route.startsWith("PATCH ") ? "change" : (words.at(-1) ?? "").toLowerCase();
    const optional = sdk.optional ?? requestBody?.required !== true;
    if (sdk.body !== "members") {
      return { name: sdk.body ?? name, schema, optional };
    }
    const { properties = {}, required = [] } = this.#resolved(schema);
    const members = Object.entries(properties)
      .filter(([wire]) => wire !== sdk.object && isOffered(wire, sdk))
      .map(([wire, member]) => argument(sdk, wire, member, required.includes(wire)));
    return {
      name,
      schema,
      optional,
      members: members.toSorted((a, b) => Number(b.required) - Number(a.required)),
    };
  }

  method(operation: Described, sdk: SdkMethod): Method {
    const { route, parameters = [] } = operation;
    const { summary = "", description = "" } = operation;
    const [verb = "", path = ""] = route.split(" ");
    const named = (wire: string): readonly Argument[] =>
      parameters.filter((each) => each.name === wire).map(({ schema }) => argument(sdk, wire, schema, true));
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].flatMap(([, wire = ""]) => named(wire));
    const others =
      sdk.object === undefined || inPath.some(({ wire }) => wire === sdk.object)
        ? []
        : [argument(sdk, sdk.object, { type: "string" }, true)];
    const query = parameters.filter(
      (each) =>
        each.in === "query" && verb === "GET" && each.name !== sdk.object && isOffered(each.name, sdk),
    );
    return {
      name: sdk.name.slice(sdk.name.lastIndexOf(".") + 1),
      sdk,
      operation,
      verb,
      path,
      ids: [...inPath, ...others],
      ...(verb === "GET" || verb === "DELETE"
        ? { idsInQuery: others, idsInBody: [] }
        : { idsInQuery: [], idsInBody: others }),
      query: query.map(({ name, schema, description: doc = "" }) =>
        argument(sdk, name, { description: doc, ...nonNull(schema) }, false),
      ),
      body: this.#body(operation, sdk),
      ...this.#answer(operation, sdk),
      isKeyed: verb === "POST" && sdk.repeat === undefined,
      isRepeatable: sdk.repeat === "safe" || sdk.repeat === "read",
      sentences: sdk.text === undefined ? [summary, ...sentencesOf(description)] : [sdk.text],
    };
  }
}

function isOffered(wire: string, { without = [] }: SdkMethod): boolean {
  return !OMITTED.has(wire) && !without.includes(wire);
}

function argument(sdk: SdkMethod, wire: string, schema: Schema, required: boolean): Argument {
  // The calls of a resource below another one take the id of that one.
  const [parent = "", ...below] = sdk.name.split(".");
  const id = below.length > 1 ? `${parent.replace(/s$/, "")}_id` : "id";
  const name = sdk.names?.[wire] ?? (wire === sdk.object || wire === "id" ? id : wire);
  return { name, wire, schema, required };
}

/** Returns all resources with their methods, in the order of the document, from the document for tenants. */
export function sdkResources(document: Document): readonly Resource[] {
  const { paths, components } = withClientNames(document);
  const reader = new Reader(components.schemas);
  const found = new Map<string, Map<string, Method>>();
  for (const operation of operationsOf({ paths })) {
    for (const sdk of declaredMethods(operation["x-sdk"])) {
      const method = reader.method(operation, sdk);
      const resource = sdk.name.slice(0, -method.name.length - 1);
      const methods = found.get(resource) ?? new Map<string, Method>();
      // A method by hand may use several operations.
      found.set(resource, methods.set(method.name, methods.get(method.name) ?? method));
    }
  }
  return [...found].map(([name, methods]) => {
    const text = RESOURCES[name] ?? "";
    return { name, text, methods: [...methods.values()] };
  });
}

/** Returns each resource with those below it: `endpoints`, `endpoints.secrets`. */
export function resourceGroups(document: Document): readonly (readonly [Resource, ...Resource[]])[] {
  const all = sdkResources(document);
  return all
    .filter(({ name }) => !name.includes("."))
    .map((resource) => [resource, ...all.filter(({ name }) => name.startsWith(`${resource.name}.`))]);
}

/** Returns the methods that a language has, and whether its template writes them. */
export function methodsIn(
  resource: Resource,
  language: SdkLanguage,
): { readonly all: readonly Method[]; readonly written: readonly Method[] } {
  const all = resource.methods.filter(({ sdk }) => sdk.missing?.includes(language) !== true);
  return { all, written: all.filter(({ sdk }) => sdk.byHand?.includes(language) !== true) };
}

/** Returns a text whose first verb is in the third person: "Lists the endpoints". */
function inThirdPerson(text: string): string {
  return text.replace(/^\w+/, (verb) =>
    /(s|x|z|ch|sh|o)$/.test(verb) ? `${verb}es` : verb.replace(/([^aeiou])y$/, "$1ie").concat("s"),
  );
}

/** Returns all sentences, the first one in the third person. */
export function fullText({ sentences }: Method): string {
  return inThirdPerson(`${sentences.join(". ")}.`);
}

/** Returns the summary and a sentence of the description, for packages with a limit: the API's reference has the others. */
export function shortText({ sentences, sdk }: Method): string {
  const note = sdk.repeat === "never" ? ["Not retried if its answer is lost"] : [];
  return inThirdPerson(`${[...sentences.slice(0, 2), ...note].join(". ")}.`);
}

/** Returns the words of a name in camel or snake case, in lower case. */
export function wordsOf(name: string): string[] {
  return name.split(/_|\.|(?=[A-Z])/).map((word) => word.toLowerCase());
}

function pascalCase(words: readonly string[]): string {
  return words.map(capitalized).join("");
}

export function camelCase(name: string): string {
  const [first = "", ...others] = wordsOf(name);
  return first + pascalCase(others);
}

/** Returns the name of a resource's class: `endpoints.secrets` is EndpointSecrets. */
export function className(resource: string): string {
  const [first = "", second] = resource.split(".");
  return second === undefined
    ? pascalCase(wordsOf(first))
    : pascalCase([...wordsOf(first.replace(/s$/, "")), ...wordsOf(second)]);
}

/** Returns the path of a method with what `write` makes of each parameter. */
export function filledPath({ path, ids }: Method, write: (id: Argument) => string): string {
  return path.replaceAll(/\{(\w+)\}/g, (whole, wire: string) => {
    const id = ids.find((each) => each.wire === wire);
    return id === undefined ? whole : write(id);
  });
}

/** Whether an argument of a path is a number: a pattern of digits alone. */
export function isNumber({ type, pattern }: Schema): boolean {
  return (
    type === "integer" ||
    (pattern !== undefined && new RegExp(pattern, "u").test("7") && !new RegExp(pattern, "u").test("a"))
  );
}

/** Returns the name of a method in Go. */
export function goMethod({ sdk, name }: Method): string {
  return sdk.go ?? pascalCase(wordsOf(name));
}

/** Names of members and methods as each language writes them. */
const SPELLED: Readonly<Record<SdkLanguage, (name: string) => string>> = {
  typescript: (name) => name,
  go: (name) => pascalCase(wordsOf(name)),
  python: (name) =>
    name
      .split(".")
      .map((part) => wordsOf(part).join("_"))
      .join("."),
};

/** Returns the rows of the table of an SDK's methods: the member of the client, and the methods. */
export function sdkTable(
  document: Document,
  language: SdkLanguage,
): readonly (readonly [member: string, methods: readonly string[]])[] {
  const rows = new Map<string, string[]>();
  for (const resource of sdkResources(document)) {
    // In Go, resources have no resources of their own.
    const member = language === "go" ? (resource.name.split(".")[0] ?? "") : resource.name;
    const methods = methodsIn(resource, language).all.map((method) =>
      language === "go" ? goMethod(method) : SPELLED[language](method.name),
    );
    rows.set(SPELLED[language](member), [...(rows.get(SPELLED[language](member)) ?? []), ...methods]);
  }
  return [...rows];
}
