/** Idle connections by destination and by idle time. */

/** An idle connection to the destination `key`. */
export interface Keyed {
  readonly key: string;
}

/** A bounded set of idle connections. */
export class IdleSet<T extends Keyed> {
  private readonly maximum: number;
  private readonly maximumPerKey: number;
  private readonly byKey = new Map<string, T[]>();
  /** In the order in which they became idle. */
  private readonly all = new Set<T>();

  constructor(maximum: number, maximumPerKey: number) {
    this.maximum = maximum;
    this.maximumPerKey = maximumPerKey;
  }

  get size(): number {
    return this.all.size;
  }

  get keys(): number {
    return this.byKey.size;
  }

  has(item: T): boolean {
    return this.all.has(item);
  }

  /** Takes the most recently used connection, so that the others can expire. */
  take(key: string): T | undefined {
    const item = this.byKey.get(key)?.at(-1);
    if (item !== undefined) {
      this.remove(item);
    }
    return item;
  }

  remove(item: T): void {
    const siblings = this.byKey.get(item.key);
    if (siblings === undefined || !this.all.delete(item)) {
      return;
    }
    siblings.splice(siblings.lastIndexOf(item), 1);
    if (siblings.length === 0) {
      this.byKey.delete(item.key);
    }
  }

  /** Adds a connection. Returns the one that it displaced. */
  add(item: T): T | undefined {
    const siblings = this.byKey.get(item.key) ?? [];
    this.byKey.set(item.key, siblings);
    siblings.push(item);
    this.all.add(item);
    const candidates: Iterable<T> = siblings.length > this.maximumPerKey ? siblings : this.all;
    if (siblings.length <= this.maximumPerKey && this.all.size <= this.maximum) {
      return undefined;
    }
    const [oldest] = candidates;
    if (oldest !== undefined) {
      this.remove(oldest);
    }
    return oldest;
  }

  /** Returns the half that has been idle for longer, rounded up. */
  olderHalf(): readonly T[] {
    return [...this.all].slice(0, Math.ceil(this.all.size / 2));
  }

  filter(matches: (item: T) => boolean): readonly T[] {
    return [...this.all].filter(matches);
  }

  /** Empties the set and returns its connections. */
  clear(): readonly T[] {
    const items = [...this.all];
    this.all.clear();
    this.byKey.clear();
    return items;
  }
}
