/** Building blocks of the resources' schemas. */
import { type Static, type TProperties, type TSchema, Type } from "typebox";
import { ID_PREFIXES, type IdNoun, idPattern } from "#domain/ids.ts";
import { REGION_PATTERN } from "#domain/regions.ts";
import { SCOPE_PATTERN } from "#domain/scopes.ts";
import type { RawJson } from "./strict-json.ts";

/** Returns the schema of an object that rejects unknown members. */
export function Closed<Properties extends TProperties>(properties: Properties): Type.TObject<Properties> {
  return Type.Object(properties, { additionalProperties: false });
}

/** Names a schema in the OpenAPI document, and so the type in generated clients (api/openapi/components.ts). */
export function Named<Schema extends TSchema>(name: string, schema: Schema): Schema {
  return Object.assign(schema, { "x-name": name });
}

/**
 * Returns the option of a schema whose keywords in the OpenAPI document differ from those that the service checks with.
 * `undefined` removes a keyword.
 */
export function Documented(keywords: object): { readonly "x-documented": object } {
  return { "x-documented": keywords };
}

/** Returns the named schema of an object in a request, which rejects unknown members. */
export function Body<Properties extends TProperties>(
  name: string,
  properties: Properties,
): Type.TObject<Properties> {
  return Named(name, Closed(properties));
}

/** Returns the named schema of an object in a response. */
export function Resource<Properties extends TProperties>(
  name: string,
  properties: Properties,
  options: Type.TObjectOptions = {},
): Type.TObject<Properties> {
  return Named(name, Type.Object(properties, options));
}

/** How errors describe a string with a pattern (fault-words.ts). */
interface Form {
  readonly pattern: string;
  /** Noun phrase after "must be". */
  readonly wanted: string;
  /** Errors may repeat the value. Never set it for a value that may contain a secret. */
  readonly shown?: true;
}

/** Returns the schema of a string with a pattern. */
export function Formed({ pattern, wanted, shown }: Form, options: Type.TStringOptions = {}): Type.TString {
  const words = shown === undefined ? { "x-wanted": wanted } : { "x-wanted": wanted, "x-shown": shown };
  return Type.String({ pattern, ...words, ...options });
}

/** Returns the schema of a noun's id. */
export function Id(noun: IdNoun, description?: string): Type.TString {
  const article = /^[aeo]/.test(noun) ? "an" : "a";
  const described =
    description ?? `Id of ${article} ${noun.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)}`;
  const wanted = `the id of ${article} ${noun} (${ID_PREFIXES[noun]}_ and 24 characters)`;
  return Formed(
    { pattern: idPattern(noun), wanted, shown: true },
    { description: described, "x-noun": noun },
  );
}

/** Returns the option of a parameter that takes ids of several nouns, for the links of the OpenAPI document. */
export function Takes(...nouns: readonly IdNoun[]): { readonly "x-takes": readonly IdNoun[] } {
  return { "x-takes": nouns };
}

/** Returns the schema of the path parameter `{id}` of a noun. */
export function IdParams(noun: IdNoun): Type.TObject<{ id: Type.TString }> {
  return Closed({ id: Id(noun) });
}

export const Timestamp = Type.String({
  description: "RFC 3339, UTC, milliseconds",
  examples: ["2025-11-20T14:46:40.000Z"],
  ...Documented({ format: "date-time" }),
});

/** Returns the schema of a string enum. */
export function OneOf<const Choices extends readonly string[]>(
  choices: Choices,
  options: Type.TSchemaOptions = {},
): Type.TUnsafe<Choices[number]> {
  return Type.Unsafe<Choices[number]>({ type: "string", enum: choices, ...options });
}

const METADATA_MEMBERS_MAX = 8;

/** Selects endpoints by metadata: up to 8 query parameters `metadata[key]=value`, or an object in a body. */
export const MetadataQuery = {
  metadata: Type.Optional(
    Type.Unsafe<Readonly<Record<string, string>>>({
      type: "object",
      description:
        "Selects endpoints whose metadata has these members with these values, compared as strings; metadata[key]=value in a query",
      minProperties: 1,
      maxProperties: METADATA_MEMBERS_MAX,
      propertyNames: { maxLength: 128 },
      additionalProperties: { type: "string", maxLength: 1_024 },
    }),
  ),
};

/** Returns the union of the schema and `null`. */
export function Nullable<Schema extends TSchema>(schema: Schema): Type.TUnion<[Schema, Type.TNull]> {
  return Type.Union([schema, Type.Null()]);
}

/** A scope (domain/scopes.ts). */
export const Scope = Formed({
  pattern: SCOPE_PATTERN,
  wanted: "a scope such as webhooks:read: two words of a-z, 0-9, _ and -, joined by a colon",
  shown: true,
});

/** Regions of tenants and principals (contract 9.4). */
export const Region = Formed(
  {
    pattern: `^(${REGION_PATTERN}|global)$`,
    wanted: "a region such as eu or eu-west-1, or global",
    shown: true,
  },
  { examples: ["eu", "eu-west-1"] },
);

const NO_CONTROL_CHARACTERS = {
  // The control characters as ranges: not every reader of the OpenAPI document knows \p{Cc}.
  pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
  wanted: "a string without line breaks and other control characters",
} as const;

/** Returns the schema of a single line for humans. */
export function TextLine(maxLength: number, options: Type.TStringOptions = {}): Type.TString {
  return Formed(NO_CONTROL_CHARACTERS, { minLength: 1, maxLength, ...options });
}

/** A name for humans, without control characters. */
export const Name = TextLine(128, { description: "A name for humans" });

/**
 * A body member that is passed on unparsed. The route lists it in `config.opaque`, and the handler gets a RawJson.
 */
export const OpaqueObject = Type.Unsafe<RawJson>({
  type: "object",
  "x-opaque": "object",
  "x-opaque-depth": true,
});

/** An opaque object, or `null` to remove it. */
export const OpaqueObjectOrNull = Type.Unsafe<RawJson>({
  type: ["object", "null"],
  "x-opaque": "object or null",
  "x-opaque-depth": true,
});

/** Default number of items per page. */
export const PAGE_LIMIT = 50;

/** The query parameters `limit` and `cursor` of a list. */
export const PageQuery = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: PAGE_LIMIT })),
  cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
};

/** Returns the name of a list of items, from the item's name. */
function nameOfList(item: TSchema, kind: "List" | "Page"): string {
  return `${String((item as { readonly "x-name"?: string })["x-name"])}${kind}`;
}

/** Returns the schema of a page of items, which have a name. */
export function Page<Item extends TSchema>(
  item: Item,
): Type.TObject<{ data: Type.TArray<Item>; next_cursor: Type.TUnion<[Type.TString, Type.TNull]> }> {
  return Resource(nameOfList(item, "Page"), { data: Type.Array(item), next_cursor: Nullable(Type.String()) });
}

/** Returns the schema of a whole list of items, which have a name. */
export function List<Item extends TSchema>(item: Item): Type.TObject<{ data: Type.TArray<Item> }> {
  return Resource(nameOfList(item, "List"), { data: Type.Array(item) });
}

/** The header that makes a POST repeatable for 24 hours. */
export const IdempotencyHeaders = Type.Object({
  "idempotency-key": Type.Optional(
    Formed({ pattern: "^[\\x20-\\x7e]{1,255}$", wanted: "1 to 255 printable ASCII characters" }),
  ),
});

export type IdempotencyHeaders = Static<typeof IdempotencyHeaders>;
