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
  /**
   * Flushes take items of the owners in turns, in order within each. Each owner may take half of the waiting room. Beyond
   * that, its items are rejected with `refusal`.
   */
  readonly owner?: { readonly of: (item: Item) => string; readonly refusal: () => Error };
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

type Limits<Item> = Pick<BatcherOptions<Item, unknown>, "maxItems" | "size" | "maxWaiting" | "owner">;

/** What waits of an owner, oldest first from `head`. */
interface Queue<Entry> {
  readonly entries: Entry[];
  head: number;
  size: number;
}

/** Entries before a queue's head that are removed at once. */
const COMPACTED = 256;

/** What waits, in all and by owner. */
class WaitingRoom<Item, Entry extends { readonly item: Item }> {
  readonly #maxItems: number;
  readonly #maxWaiting: number;
  readonly #owner: Limits<Item>["owner"];
  readonly #sizeOf: (item: Item) => number;
  readonly #flushSizeMax: number;
  readonly #sizeMax: number;
  /** In the order of their turns. */
  readonly #queues = new Map<string, Queue<Entry>>();
  #count = 0;
  #size = 0;

  constructor({ maxItems, size, maxWaiting = WAITING_ITEMS_MAX, owner }: Limits<Item>) {
    this.#maxItems = maxItems;
    this.#maxWaiting = maxWaiting;
    this.#owner = owner;
    this.#sizeOf = size?.of ?? (() => 0);
    this.#flushSizeMax = size?.max ?? Number.POSITIVE_INFINITY;
    this.#sizeMax = size?.maxWaiting ?? Number.POSITIVE_INFINITY;
  }

  get count(): number {
    return this.#count;
  }

  /** Returns why an item cannot wait; undefined if it can. */
  refusalOf(item: Item): Error | undefined {
    if (this.#isTaken(this.#count, this.#size, 1)) {
      return new DatabaseBusyError("too many items wait for the database");
    }
    const queue = this.#owner === undefined ? undefined : this.#queues.get(this.#owner.of(item));
    return queue !== undefined && this.#isTaken(queue.entries.length - queue.head, queue.size, 1 / 2)
      ? this.#owner?.refusal()
      : undefined;
  }

  enter(entry: Entry): void {
    const owner = this.#owner?.of(entry.item) ?? "";
    const queue = this.#queues.get(owner) ?? { entries: [], head: 0, size: 0 };
    this.#queues.set(owner, queue);
    const size = this.#sizeOf(entry.item);
    queue.entries.push(entry);
    queue.size += size;
    this.#size += size;
    this.#count += 1;
  }

  /** Takes the next flush: at least one entry if any waits, within the limits. */
  take(): Entry[] {
    const taken: Entry[] = [];
    let flushed = 0;
    for (const [owner, queue] of this.#queues) {
      const entry = queue.entries[queue.head] as Entry;
      const size = this.#sizeOf(entry.item);
      if (taken.length === this.#maxItems || (taken.length > 0 && flushed + size > this.#flushSizeMax)) {
        break;
      }
      taken.push(entry);
      flushed += size;
      queue.head += 1;
      queue.size -= size;
      // The loop comes to it again, after the other owners.
      this.#queues.delete(owner);
      if (queue.head < queue.entries.length) {
        this.#queues.set(owner, queue);
      }
      if (queue.head === COMPACTED) {
        queue.entries.splice(0, COMPACTED);
        queue.head = 0;
      }
    }
    this.#count -= taken.length;
    this.#size -= flushed;
    return taken;
  }

  #isTaken(items: number, size: number, share: number): boolean {
    return items >= this.#maxWaiting * share || size >= this.#sizeMax * share;
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

export function createBatcher<Item, Result>(options: BatcherOptions<Item, Result>): Batcher<Item, Result> {
  const waiting = new WaitingRoom<Item, Waiting<Item, Result>>(options);
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
    while (inFlight < options.maxInFlight && waiting.count > 0) {
      inFlight += 1;
      void run(waiting.take());
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
        const refusal = waiting.refusalOf(item);
        if (refusal !== undefined) {
          reject(refusal);
          return;
        }
        waiting.enter({ item, resolve, reject });
        schedule();
      }),
    drain: async () => {
      if (inFlight > 0 || waiting.count > 0) {
        await new Promise<void>((resolve) => drained.push(resolve));
      }
    },
  };
}
