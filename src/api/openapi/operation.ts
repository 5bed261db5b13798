/** What is said of an operation beside its schemas. */
import type { ErrorCode } from "../../domain/errors.ts";
import type { DocumentedSchema } from "./examples.ts";

export interface OperationText {
  /** For code that is made from the document. */
  readonly id: string;
  /** A line, without a full stop. */
  readonly summary: string;
  /** What one has to know to use it; Markdown. */
  readonly description: string;
  /** Codes of its own, besides those that every operation of its kind has. */
  readonly errors?: readonly ErrorCode[];
  /** Example bodies by name. Where there is none, the required members of the schema are one. */
  readonly requests?: Readonly<Record<string, unknown>>;
  /** The body's schema, where the route reads the bytes itself. */
  readonly body?: DocumentedSchema;
  /** The answer's schema, where the route has none. */
  readonly answer?: DocumentedSchema;
  /** The answer's media type, where it is not JSON. */
  readonly answerType?: string;
  /** Example of the answer to a success, instead of one that is made from the schema. */
  readonly answered?: unknown;
}

/** Texts by `METHOD /path`. */
export type OperationTexts = Readonly<Record<string, OperationText>>;
