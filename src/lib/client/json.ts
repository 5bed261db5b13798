/** Untrusted JSON. */

export type Json = Readonly<Record<string, unknown>>;

/** Returns the value if it is an object, else an empty object. */
export function asObject(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}
