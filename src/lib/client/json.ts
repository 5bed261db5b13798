/** JSON that came from elsewhere. */

export type Json = Readonly<Record<string, unknown>>;

/** The value when it has members, else an object without any. */
export function asObject(value: unknown): Json {
  return typeof value === "object" && value !== null ? (value as Json) : {};
}
