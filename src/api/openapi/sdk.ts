/** Declares which method of the SDKs an operation is. src/tools/sdk-methods.ts derives the rest from the operation's schemas. */

export type SdkLanguage = "typescript" | "go" | "python";

/** Resource and method in camel case, for instance `endpoints.disable` or `endpoints.secrets.rotate`. */
export type SdkName = `${string}.${string}`;

/** A method, with what schemas and texts do not tell. */
export interface SdkMethod {
  readonly name: SdkName;
  /** Replaces summary and description; for an operation with several methods. */
  readonly text?: string;
  /** How a POST is repeated after a lost answer. By default with an Idempotency-Key, which the caller may set. */
  readonly repeat?: SdkRepeat;
  /** Name of the argument for the body, or `members`: each member is an argument. By default from the schema's name. */
  readonly body?: string;
  /** The body's schema, if the operation has alternatives. */
  readonly takes?: string;
  /** The answer's schema, if the operation has alternatives; `X[]` for a list of it. */
  readonly returns?: string;
  /** The caller may omit the body, which is then empty; always so if the operation has an `optionalBody`. */
  readonly optional?: true;
  /** Members of the body that the method sets itself. */
  readonly send?: Readonly<Record<string, true>>;
  /** Parameters and members that the method does not offer. */
  readonly without?: readonly string[];
  /** The parameter or member that holds the id of the object. */
  readonly object?: string;
  /** Names of arguments, by parameter or member. */
  readonly names?: Readonly<Record<string, string>>;
  /** The method reads pages of this size, which the caller cannot choose. */
  readonly pageSize?: number;
  /** Name in Go, whose resources have no resources of their own. */
  readonly go?: string;
  /** Types of the body, for languages whose type has another name. */
  readonly types?: Readonly<Partial<Record<SdkLanguage, string>>>;
  /** Arguments of older methods in TypeScript: the body as one object, or parameters outside the options. */
  readonly typescript?: { readonly body?: "whole"; readonly positional?: true };
  /** Languages in which the method is written by hand. */
  readonly byHand?: readonly SdkLanguage[];
  /** Languages that lack the method. */
  readonly missing?: readonly SdkLanguage[];
}

/**
 * `safe`: by nature, without a key. `never`: not, because a repetition could do more. `read`: like a GET. Go sends a key
 * with every POST except a `read`.
 */
export type SdkRepeat = "safe" | "never" | "read";

/** One method, several, or the reason why SDKs have none. */
export type Sdk = SdkName | SdkMethod | readonly (SdkName | SdkMethod)[] | { readonly none: string };
