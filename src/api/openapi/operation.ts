/** Declares a route of the API: who may call it, its schemas, and its texts for the OpenAPI document. */
import type { FastifyContextConfig } from "fastify";
import type { TSchema } from "typebox";
import type { ErrorCode } from "#domain/errors.ts";
import type { DocumentedSchema } from "./examples.ts";
import type { Sdk } from "./sdk.ts";

/** Parts of an operation in the OpenAPI document that schemas do not express. */
export interface Documentation {
  /** Codes in addition to those of every operation of its kind. */
  readonly errors?: readonly ErrorCode[];
  /** Example bodies by name; by default one with the schema's required members. */
  readonly requestExamples?: Readonly<Record<string, unknown>>;
  /** Example of the success response; by default generated from the schema. */
  readonly responseExample?: unknown;
  /** The body's schema, if the route parses the bytes itself. */
  readonly documentedBody?: DocumentedSchema;
  /** The response's schema, if the route declares none. */
  readonly documentedResponse?: DocumentedSchema;
  /** The success response as CSV, if a parameter asks for it. */
  readonly csvExample?: string;
  /** Media type of the documented response; JSON by default. */
  readonly responseType?: string;
  /** The method of the SDKs. Every operation of tenants declares it, or why there is none. */
  readonly sdk?: Sdk;
}

declare module "fastify" {
  interface FastifyContextConfig extends Documentation {}
}

type Part = TSchema | undefined;
type Responses = Readonly<Record<number, TSchema>> | undefined;

/** The members that Fastify's `schema` has under the same names. */
interface Schemas<
  Params extends Part,
  Query extends Part,
  Headers extends Part,
  Body extends Part,
  Response extends Responses,
> {
  readonly params: Params;
  readonly querystring: Query;
  readonly headers: Headers;
  readonly body: Body;
  readonly response: Response;
}

interface Texts {
  /** The operationId, for code generators. */
  readonly id: string;
  /** One of the tags in openapi.ts. */
  readonly tag: string;
  /** One line, without a full stop. */
  readonly summary: string;
  /** How to use the operation; Markdown. */
  readonly description: string;
}

/** Returns the options of a route. Members other than texts and schemas become its `config`. */
export function operation<
  Params extends Part = undefined,
  Query extends Part = undefined,
  Headers extends Part = undefined,
  Body extends Part = undefined,
  Response extends Responses = undefined,
>(
  declared: Texts &
    Partial<Schemas<Params, Query, Headers, Body, Response>> &
    FastifyContextConfig & { readonly bodyLimit?: number },
) {
  const { id, tag, summary, description, bodyLimit, ...others } = declared;
  const { params, querystring, headers, body, response, ...config } = others;
  // Fastify warns of members that are present but undefined.
  const schemas = Object.fromEntries(
    Object.entries({ params, querystring, headers, body, response }).filter(
      ([, schema]) => schema !== undefined,
    ),
  );
  return {
    config,
    schema: {
      operationId: id,
      tags: [tag],
      summary,
      description,
      ...(schemas as unknown as Schemas<Params, Query, Headers, Body, Response>),
    },
    ...(bodyLimit === undefined ? {} : { bodyLimit }),
  };
}
