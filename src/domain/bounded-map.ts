/** Maps with a maximum size or weight, in the order of use. */

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

/** A map whose values weigh at most `max` together. Beyond that it removes the oldest ones, but never the newest. */
export class WeighedMap<Key, Value> {
  readonly #entries = new Map<Key, { readonly value: Value; readonly weight: number }>();
  readonly #max: number;
  #weight = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key)?.value;
  }

  delete(key: Key): void {
    this.#weight -= this.#entries.get(key)?.weight ?? 0;
    this.#entries.delete(key);
  }

  put(key: Key, value: Value, weight: number): void {
    this.delete(key);
    this.#entries.set(key, { value, weight });
    this.#weight += weight;
    for (const oldest of this.#entries.keys()) {
      if (this.#weight <= this.#max || this.#entries.size === 1) {
        return;
      }
      this.delete(oldest);
    }
  }
}
