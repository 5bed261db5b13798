/** Equality of JSON values that strangers wrote. */

type JsonObject = Readonly<Record<string, unknown>>;

/** Neither null nor an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Whether two values are the same JSON; members of objects in any order. Only members that the values have themselves
 * are looked at, so `constructor` and `valueOf` are names like others.
 *
 * @param wanted the value that is known: the work is bounded by its size, apart from the names of `value`
 * @param spend told of each step; may throw
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
