/** Memories with a limit: maps whose order is the order of use. */

/**
 * Puts the entry at the end of the map. Of more than `max` entries the first goes: the one that was put longest ago.
 *
 * @returns the key that went, if one did
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
