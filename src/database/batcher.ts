/**
 * Group commit: concurrent callers share one statement. Items that arrive during earlier statements wait together. Thus
 * the batch grows with the load, and a lone item never waits (architecture 3).
 */
import { DatabaseBusyError } from "./errors.ts";

/** Default limit of items that wait while flushes are under way. */
const WAITING_ITEMS_MAX = 10_000;

export interface BatcherOptions<Item, Result> {
  /** Handles a batch. Returns the results in the order of the items. */
  readonly flush: (items: readonly Item[]) => Promise<readonly Result[]>;
  /** Maximum number of items per flush. */
  readonly maxItems: number;
  /** Maximum number of concurrent flushes. */
  readonly maxInFlight: number;
  /** Also limits a flush by size. An item that alone exceeds `max` is flushed alone. */
  readonly size?: { readonly of: (item: Item) => number; readonly max: number; readonly maxWaiting?: number };
  /** Maximum number of waiting items; 10,000 by default. Use Infinity only if something else limits them. */
  readonly maxWaiting?: number;
  /** Each owner may take half of the waiting room. Beyond that, its items are rejected with `refusal`. */
  readonly owner?: { readonly of: (item: Item) => string; readonly refusal: () => Error };
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

type Limits<Item> = Pick<BatcherOptions<Item, unknown>, "size" | "maxWaiting" | "owner">;

interface Taken {
  readonly items: number;
  readonly size: number;
}

const NOTHING: Taken = { items: 0, size: 0 };

/** Counts what waits, in all and by owner. */
class WaitingRoom<Item> {
  readonly #maxWaiting: number;
  readonly #owner: Limits<Item>["owner"];
  readonly #sizeOf: (item: Item) => number;
  readonly #sizeMax: number;
  readonly #owners = new Map<string, Taken>();
  #all = NOTHING;

  constructor({ size, maxWaiting = WAITING_ITEMS_MAX, owner }: Limits<Item>) {
    this.#maxWaiting = maxWaiting;
    this.#owner = owner;
    this.#sizeOf = size?.of ?? (() => 0);
    this.#sizeMax = size?.maxWaiting ?? Number.POSITIVE_INFINITY;
  }

  /** Returns why an item cannot wait; undefined if it can. */
  refusalOf(item: Item): Error | undefined {
    if (this.#isTaken(this.#all, 1)) {
      return new DatabaseBusyError("too many items wait for the database");
    }
    const taken = this.#owner === undefined ? NOTHING : this.#owners.get(this.#owner.of(item));
    return taken !== undefined && this.#isTaken(taken, 1 / 2) ? this.#owner?.refusal() : undefined;
  }

  enter(item: Item): void {
    this.#count(item, 1);
  }

  leave(item: Item): void {
    this.#count(item, -1);
  }

  #isTaken({ items, size }: Taken, share: number): boolean {
    return items >= this.#maxWaiting * share || size >= this.#sizeMax * share;
  }

  #count(item: Item, by: 1 | -1): void {
    const plus = ({ items, size }: Taken): Taken => ({
      items: items + by,
      size: size + by * this.#sizeOf(item),
    });
    this.#all = plus(this.#all);
    if (this.#owner !== undefined) {
      const name = this.#owner.of(item);
      const taken = plus(this.#owners.get(name) ?? NOTHING);
      if (taken.items === 0) {
        this.#owners.delete(name);
      } else {
        this.#owners.set(name, taken);
      }
    }
  }
}

export interface Batcher<Item, Result> {
  /**
   * Resolves with the item's own result, or rejects with the flush's error.
   *
   * @throws DatabaseBusyError at once if too many items wait: an unavailable database must not fill the memory. The
   *   owner's `refusal` if too many of its items wait
   */
  add(item: Item): Promise<Result>;
  /** Resolves when nothing waits and no flush is under way. */
  drain(): Promise<void>;
}

/** Returns how many waiting items the next flush takes: at least one, within the limits. */
function countNext<Item, Result>(
  waiting: readonly Waiting<Item, Result>[],
  { maxItems, size }: BatcherOptions<Item, Result>,
): number {
  const most = Math.min(maxItems, waiting.length);
  if (size === undefined) {
    return most;
  }
  let total = 0;
  for (let count = 0; count < most; count += 1) {
    const more = size.of((waiting[count] as Waiting<Item, Result>).item);
    if (count > 0 && total + more > size.max) {
      return count;
    }
    total += more;
  }
  return most;
}

export function createBatcher<Item, Result>(options: BatcherOptions<Item, Result>): Batcher<Item, Result> {
  const waiting: Waiting<Item, Result>[] = [];
  const room = new WaitingRoom(options);
  const drained: (() => void)[] = [];
  let inFlight = 0;
  let scheduled = false;

  async function run(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await options.flush(batch.map((entry) => entry.item));
      if (results.length !== batch.length) {
        throw new Error(`a flush of ${batch.length} items returned ${results.length} results`);
      }
      batch.forEach((entry, index) => entry.resolve(results[index] as Result));
    } catch (error) {
      for (const entry of batch) {
        entry.reject(error);
      }
    } finally {
      inFlight -= 1;
      pump();
    }
  }

  function pump(): void {
    while (inFlight < options.maxInFlight && waiting.length > 0) {
      inFlight += 1;
      const batch = waiting.splice(0, countNext(waiting, options));
      for (const { item } of batch) {
        room.leave(item);
      }
      void run(batch);
    }
    if (inFlight === 0) {
      for (const done of drained.splice(0)) {
        done();
      }
    }
  }

  function schedule(): void {
    if (!scheduled) {
      scheduled = true;
      // Runs after this turn's I/O, so that items that arrive in the same turn share a flush.
      setImmediate(() => {
        scheduled = false;
        pump();
      });
    }
  }

  return {
    add: async (item) =>
      await new Promise<Result>((resolve, reject) => {
        const refusal = room.refusalOf(item);
        if (refusal !== undefined) {
          reject(refusal);
          return;
        }
        waiting.push({ item, resolve, reject });
        room.enter(item);
        schedule();
      }),
    drain: async () => {
      if (inFlight > 0 || waiting.length > 0) {
        await new Promise<void>((resolve) => drained.push(resolve));
      }
    },
  };
}
