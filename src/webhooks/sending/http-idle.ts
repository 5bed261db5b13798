/** Which connections are idle, by what they lead to, and which of them has been so for longest. */

/** An idle connection leads to `key`. */
export interface Keyed {
  readonly key: string;
}

/** A bounded set of idle connections. */
export class IdleSet<T extends Keyed> {
  private readonly maximum: number;
  private readonly maximumPerKey: number;
  private readonly byKey = new Map<string, T[]>();
  /** Insertion order is the order of becoming idle. */
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

  /** Takes the one that became idle last: the others may then grow old enough to be closed. */
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

  /** Adds one; returns the one that had to make room for it. */
  add(item: T): T | undefined {
    const siblings = this.byKey.get(item.key) ?? [];
    this.byKey.set(item.key, siblings);
    siblings.push(item);
    this.all.add(item);
    const crowd: Iterable<T> = siblings.length > this.maximumPerKey ? siblings : this.all;
    if (siblings.length <= this.maximumPerKey && this.all.size <= this.maximum) {
      return undefined;
    }
    const [oldest] = crowd;
    if (oldest !== undefined) {
      this.remove(oldest);
    }
    return oldest;
  }

  filter(matches: (item: T) => boolean): readonly T[] {
    return [...this.all].filter(matches);
  }

  /** Empties the set. */
  clear(): readonly T[] {
    const items = [...this.all];
    this.all.clear();
    this.byKey.clear();
    return items;
  }
}
