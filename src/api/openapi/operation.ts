/** The texts and examples that the OpenAPI document adds to an operation's schemas. */
import type { ErrorCode } from "../../domain/errors.ts";
import type { DocumentedSchema } from "./examples.ts";

export interface OperationText {
  /** The operationId, for code generators. */
  readonly id: string;
  /** One line, without a full stop. */
  readonly summary: string;
  /** How to use the operation; Markdown. */
  readonly description: string;
  /** Codes in addition to those of every operation of its kind. */
  readonly errors?: readonly ErrorCode[];
  /** Example bodies by name; by default one with the schema's required members. */
  readonly requests?: Readonly<Record<string, unknown>>;
  /** The body's schema, if the route parses the bytes itself. */
  readonly body?: DocumentedSchema;
  /** The response's schema, if the route declares none. */
  readonly answer?: DocumentedSchema;
  /** The response's media type; JSON by default. */
  readonly answerType?: string;
  /** Example of the success response; by default generated from the schema. */
  readonly answered?: unknown;
}

/** Texts by `METHOD /path`. */
export type OperationTexts = Readonly<Record<string, OperationText>>;
