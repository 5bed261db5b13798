/** Maps with a maximum size, in the order of use. */

/**
 * Puts the entry at the end of the map. If the map then exceeds `max` entries, removes the oldest one.
 *
 * @returns the removed key, if any
 */
export function putBounded<Key, Value>(
  map: Map<Key, Value>,
  key: Key,
  value: Value,
  max: number,
): Key | undefined {
  map.delete(key);
  map.set(key, value);
  if (map.size <= max) {
    return undefined;
  }
  const [oldest] = map.keys();
  map.delete(oldest as Key);
  return oldest;
}
