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

/** A map whose values together hold no more than a maximum of something. It keeps the newest value in any case. */
export class WeighedMap<Key, Value> {
  readonly #values = new Map<Key, { readonly value: Value; readonly weight: number }>();
  readonly #weigh: (value: Value) => number;
  readonly #max: number;
  #sum = 0;

  /** @param weigh returns what a value holds; it must not change while the value is in the map */
  constructor({ weigh, max }: { readonly weigh: (value: Value) => number; readonly max: number }) {
    this.#weigh = weigh;
    this.#max = max;
  }

  get(key: Key): Value | undefined {
    return this.#values.get(key)?.value;
  }

  /** Puts the entry at the end, and removes the oldest ones until the others keep the maximum. */
  put(key: Key, value: Value): void {
    this.delete(key);
    const weight = this.#weigh(value);
    this.#values.set(key, { value, weight });
    this.#sum += weight;
    for (const oldest of this.#values.keys()) {
      if (this.#sum <= this.#max || oldest === key) {
        return;
      }
      this.delete(oldest);
    }
  }

  delete(key: Key): void {
    this.#sum -= this.#values.get(key)?.weight ?? 0;
    this.#values.delete(key);
  }
}
