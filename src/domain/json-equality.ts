/** Equality of JSON values from untrusted sources, as parsed by `parseExactJson`. */
import { Decimal } from "./decimal.ts";

type JsonObject = Readonly<Record<string, unknown>>;

/** Whether the value is an object, neither null, an array nor a number. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Decimal);
}

/**
 * Whether two values are the same JSON, with object members in any order. Only own members are compared, so
 * `constructor` and `valueOf` are ordinary names.
 *
 * @param wanted the trusted value; its size bounds the work, apart from counting the names of `value`
 * @param spend called with the number of steps; may throw
 */
export function isSameJson(value: unknown, wanted: unknown, spend: (steps: number) => void): boolean {
  spend(1);
  if (value === wanted) {
    return true;
  }
  if (Array.isArray(value) && Array.isArray(wanted)) {
    return (
      value.length === wanted.length && wanted.every((item, index) => isSameJson(value[index], item, spend))
    );
  }
  // A number is a Decimal only if no double stands for it.
  if (value instanceof Decimal && wanted instanceof Decimal) {
    return value.key === wanted.key;
  }
  if (!isJsonObject(value) || !isJsonObject(wanted)) {
    return false;
  }
  const names = Object.keys(wanted);
  if (!names.every((name) => Object.hasOwn(value, name) && isSameJson(value[name], wanted[name], spend))) {
    return false;
  }
  const { length } = Object.keys(value);
  spend(length);
  return length === names.length;
}
