/** Reads schemas and operations of the OpenAPI documents, for the generators of client-types, go-models and python-models. */
import type { Sdk } from "#api/openapi/sdk.ts";
import { Instant } from "#http/instants.ts";
import { readText } from "./repository.ts";

/** The documents, as paths in the repository. */
export const OPENAPI = { tenants: "docs/openapi.json", operators: "docs/openapi-operators.json" } as const;

/** The address of the service in these documents. */
export const PUBLIC_URL = "https://signet.example";

/** A JSON Schema. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly pattern?: string;
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly default?: unknown;
}

interface Media {
  /** Of a request's body. */
  readonly required?: boolean;
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}

export interface Operation {
  readonly operationId: string;
  readonly summary?: string;
  readonly description?: string;
  readonly "x-sdk"?: Sdk;
  readonly security?: readonly { readonly bearer?: readonly string[] }[];
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly description?: string;
    readonly schema: Schema;
  }[];
  readonly requestBody?: Media;
  readonly responses: Readonly<Record<string, Media>>;
}

export interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

export interface Described extends Operation {
  /** Method and path. */
  readonly route: string;
}

/** A longer catalogue of words is a plain string: it grows with versions of the service, and a program may be older. */
export const LITERALS_MAX = 12;

/** The pattern of an instant in a request. */
export const INSTANT = (Instant as Schema).pattern;

/** Clients' methods set these, or only signed bodies have them. */
export const OMITTED: ReadonlySet<string> = new Set(["limit", "cursor", "dry_run", "sent_at"]);

/** Descriptions that would repeat in every type. */
const REPEATED = /^(RFC 3339(, UTC, milliseconds)?|Id of an? .*)$/;
const REFERENCE = "#/components/schemas/";

/** Returns a document as `npm run docs` last wrote it. */
export async function readOpenApi(audience: keyof typeof OPENAPI): Promise<Document> {
  return JSON.parse(await readText(OPENAPI[audience])) as Document;
}

/** Returns a copy of a document in which the schemas replace the references to them, and every choice is an `anyOf`. */
export function withoutReferences<Part extends Pick<Document, "components">>(document: Part): Part {
  const { schemas } = document.components;
  const resolved = (value: object): unknown =>
    JSON.parse(JSON.stringify(value).replaceAll('"oneOf":', '"anyOf":'), (_name, part: Schema | null) => {
      const schema = schemas[nameOf(part ?? {}) ?? ""];
      return schema === undefined ? part : resolved(schema);
    });
  return resolved(document) as Part;
}

/** Returns all operations, in the document's order. */
export function operationsOf({ paths }: Pick<Document, "paths">): Described[] {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({
      ...operation,
      route: `${method.toUpperCase()} ${path}`,
    })),
  );
}

/** Returns the schema without the alternative `null`. */
export function nonNull(schema: Schema): Schema {
  const { anyOf = [], type, ...rest } = schema;
  if (typeof type === "object") {
    return { ...rest, type: type.find((each) => each !== "null") ?? "object" };
  }
  const [choice, ...others] = anyOf.filter((each) => each.type !== "null");
  return choice === undefined ? schema : others.length > 0 ? { ...rest, anyOf: [choice, ...others] } : choice;
}

export function isNullable({ type, anyOf = [] }: Schema): boolean {
  return (typeof type === "object" && type.includes("null")) || anyOf.some((each) => each.type === "null");
}

export function bodyOf(media: Media | undefined): Schema | undefined {
  return media?.content?.["application/json"]?.schema;
}

export function nameOf({ $ref }: Schema): string | undefined {
  return $ref?.startsWith(REFERENCE) === true ? $ref.slice(REFERENCE.length) : undefined;
}

/**
 * Returns the document with the names of the client libraries, which are older: `NewEndpoint` for `EndpointInput`. In the
 * document no name begins with `New`, because OpenAPI Generator's Go has a function of that name. Every choice is an
 * `anyOf`.
 */
export function withClientNames(document: Document): Document {
  const text = JSON.stringify(document)
    .replaceAll('"oneOf":', '"anyOf":')
    .replaceAll(/"(#\/components\/schemas\/)(\w+)Input"/g, '"$1New$2"');
  const { components, ...others } = JSON.parse(text) as Document;
  const schemas = Object.entries(components.schemas).map(([name, schema]) => [
    name.replace(/^(\w+)Input$/, "New$1"),
    schema,
  ]);
  return {
    ...others,
    components: { ...components, schemas: Object.fromEntries(schemas) as Document["components"]["schemas"] },
  };
}

/** Checks whether a type has all members of a base, each required in both, or optional in both. */
export function isExtension(schema: Schema, base: Schema): boolean {
  const isRequired = ({ required = [] }: Schema, name: string): boolean => required.includes(name);
  return Object.entries(base.properties ?? {}).every(
    ([name, member]) =>
      JSON.stringify(schema.properties?.[name]) === JSON.stringify(member) &&
      isRequired(schema, name) === isRequired(base, name),
  );
}

/** Returns the names of the schemas to which a schema refers. */
export function referredBy(schema: object): string[] {
  const names: string[] = [];
  JSON.stringify(schema, (name, value: unknown) => {
    if (name === "$ref" && typeof value === "string" && value.startsWith(REFERENCE)) {
      names.push(value.slice(REFERENCE.length));
    }
    return value;
  });
  return names;
}

function inWords(value: unknown): string {
  return typeof value === "number" ? value.toLocaleString("en-US") : String(value);
}

/** Returns the description, range and default of a member. */
export function memberText(schema: Schema): string {
  const { minimum, maximum, default: value, description = schema.description ?? "" } = nonNull(schema);
  const text = [
    REPEATED.test(description) ? "" : description,
    minimum === undefined || maximum === undefined ? "" : `${inWords(minimum)} to ${inWords(maximum)}`,
    value === undefined ? "" : `${inWords(value)} by default`,
  ];
  return text.filter((part) => part !== "").join("; ");
}

/** Whether a request cannot have the zero value of a type, so that it can mean absent. */
export function excludesZero({ type, minLength = 0, pattern, enum: words, minimum = 0 }: Schema): boolean {
  return type === "integer"
    ? minimum > 0
    : type === "string" &&
        (minLength > 0 ||
          words !== undefined ||
          (pattern !== undefined && !new RegExp(pattern, "u").test("")));
}
