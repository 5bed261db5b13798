/**
 * Group commit: concurrent callers share one statement. Items that arrive during earlier statements wait together. Thus
 * the batch grows with the load, and a lone item never waits (architecture 3).
 */
import { DatabaseBusyError } from "./errors.ts";

/** Default limit of items that wait while flushes are under way. */
const WAITING_ITEMS_MAX = 10_000;
/** For this long after the items of one owner, more are expected. */
const OTHERS_MS = 1_000;
/** Longer, because timers may be some milliseconds early. */
const LOOK_AGAIN_MS = OTHERS_MS + 50;

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
  /** Separates items by owner, so that one owner's many items do not delay those of others. By default, all have one. */
  readonly owner?: OwnerOptions<Item>;
  /** Monotonic clock, in milliseconds. */
  readonly now?: () => number;
}

/**
 * Flushes take items of the owners in turns, in order within each. An owner with more than `many` waiting items does not
 * share flushes with the others. While others have items, or had some in the last second, such owners leave one flush to
 * them and take at most `manyPerFlush` items.
 */
export interface OwnerOptions<Item> {
  readonly of: (item: Item) => string;
  readonly many: number;
  readonly manyPerFlush: number;
  /** Each owner may take half of the waiting room. Beyond that, its items are rejected with this error. */
  readonly refusal: () => Error;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

type Limits<Item> = Pick<
  BatcherOptions<Item, unknown>,
  "maxItems" | "maxInFlight" | "size" | "maxWaiting" | "owner"
>;

/** The items of a flush, and whether they are of owners with many. */
interface Batch<Entry> {
  readonly entries: readonly Entry[];
  readonly many: boolean;
}

/** What waits of an owner, oldest first from `head`. */
interface Queue<Entry> {
  readonly entries: Entry[];
  head: number;
  size: number;
}

/** Queues by owner, in the order of their turns. */
type Queues<Entry> = Map<string, Queue<Entry>>;

/** Entries before a queue's head that are removed at once. */
const COMPACTED = 256;

/**
 * Replaces an empty map. V8 copies a map's table after some deletions, and the copy of an old table is old as well: only
 * a full garbage collection, which delays answers, frees it.
 */
function renewed<Entry>(queues: Queues<Entry>): Queues<Entry> {
  return queues.size === 0 ? new Map<string, Queue<Entry>>() : queues;
}

/** What waits, in all and by owner. */
class WaitingRoom<Item, Entry extends { readonly item: Item }> {
  readonly #maxItems: number;
  readonly #maxInFlight: number;
  readonly #maxWaiting: number;
  readonly #owner: Limits<Item>["owner"];
  readonly #sizeOf: (item: Item) => number;
  readonly #flushSizeMax: number;
  readonly #sizeMax: number;
  /** Of owners with few waiting items, and of those that had many since their queue was empty. */
  #few: Queues<Entry> = new Map();
  #many: Queues<Entry> = new Map();
  #count = 0;
  #size = 0;
  #manyInFlight = 0;
  #lastWasMany = false;
  /** When items of owners with few were last flushed, and their owner if they had one. */
  #fewAtMs = Number.NEGATIVE_INFINITY;
  #fewOwner: string | undefined;

  constructor({ maxItems, maxInFlight, size, maxWaiting = WAITING_ITEMS_MAX, owner }: Limits<Item>) {
    this.#maxItems = maxItems;
    this.#maxInFlight = maxInFlight;
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
    const owner = this.#owner?.of(item) ?? "";
    const queue = this.#owner && (this.#many.get(owner) ?? this.#few.get(owner));
    return queue !== undefined && this.#isTaken(queue.entries.length - queue.head, queue.size, 1 / 2)
      ? this.#owner?.refusal()
      : undefined;
  }

  enter(entry: Entry): void {
    const owner = this.#owner?.of(entry.item) ?? "";
    const queue = this.#many.get(owner) ?? this.#few.get(owner) ?? { entries: [], head: 0, size: 0 };
    const size = this.#sizeOf(entry.item);
    queue.entries.push(entry);
    queue.size += size;
    this.#size += size;
    this.#count += 1;
    if (this.#many.has(owner)) {
      return;
    }
    if (this.#owner !== undefined && queue.entries.length - queue.head > this.#owner.many) {
      this.#few.delete(owner);
      this.#many.set(owner, queue);
    } else {
      this.#few.set(owner, queue);
    }
  }

  /** Takes the next flush; undefined if nothing may be flushed now. With both kinds waiting, each has its flush. */
  next(nowMs: number): Batch<Entry> | undefined {
    const manyFirst = this.#many.size > 0 && this.#manyInFlight === 0 && !this.#lastWasMany;
    return this.#few.size > 0 && !manyFirst ? this.#nextFew(nowMs) : this.#nextMany(nowMs);
  }

  #nextFew(nowMs: number): Batch<Entry> {
    const [owner] = this.#few.keys();
    const alone = this.#few.size === 1 && (this.#fewOwner === owner || !this.#hadFew(nowMs));
    this.#fewOwner = alone ? owner : undefined;
    this.#lastWasMany = false;
    this.#fewAtMs = nowMs;
    const entries = this.#take(this.#few, this.#maxItems);
    this.#few = renewed(this.#few);
    return { entries, many: false };
  }

  #nextMany(nowMs: number): Batch<Entry> | undefined {
    const beside = this.#few.size > 0 || this.#expectsFew(nowMs);
    const inFlightMax = beside ? Math.max(1, this.#maxInFlight - 1) : this.#maxInFlight;
    if (this.#many.size === 0 || this.#manyInFlight >= inFlightMax) {
      return undefined;
    }
    this.#lastWasMany = true;
    this.#manyInFlight += 1;
    const max = beside ? Math.min(this.#owner?.manyPerFlush ?? Infinity, this.#maxItems) : this.#maxItems;
    const entries = this.#take(this.#many, max);
    this.#many = renewed(this.#many);
    return { entries, many: true };
  }

  /** Whether others had items lately. The first items of a batch are few, too, but not of others. */
  #expectsFew(nowMs: number): boolean {
    const own = this.#many.size === 1 && this.#fewOwner !== undefined && this.#many.has(this.#fewOwner);
    return this.#hadFew(nowMs) && !own;
  }

  #hadFew(nowMs: number): boolean {
    return nowMs - this.#fewAtMs < OTHERS_MS;
  }

  /** Notes the end of a flush. */
  ended({ many }: Batch<Entry>): void {
    this.#manyInFlight -= many ? 1 : 0;
  }

  /** Takes at least one entry if any waits, within the limits. */
  #take(queues: Queues<Entry>, maxItems: number): Entry[] {
    const taken: Entry[] = [];
    let flushed = 0;
    while (queues.size > 0) {
      const [owner, queue] = queues.entries().next().value as [string, Queue<Entry>];
      const entry = queue.entries[queue.head] as Entry;
      const size = this.#sizeOf(entry.item);
      if (taken.length === maxItems || (taken.length > 0 && flushed + size > this.#flushSizeMax)) {
        break;
      }
      taken.push(entry);
      flushed += size;
      queue.head += 1;
      queue.size -= size;
      if (queue.head === queue.entries.length) {
        queues.delete(owner);
      } else if (queues.size > 1) {
        // Its next turn comes after the other owners.
        queues.delete(owner);
        queues.set(owner, queue);
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

/** Returns a function that lets `later` start one run; calls before its start change nothing. */
function coalesced(later: (run: () => void) => unknown, run: () => void): () => void {
  let pending = false;
  return () => {
    if (!pending) {
      pending = true;
      later(() => {
        pending = false;
        run();
      });
    }
  };
}

export function createBatcher<Item, Result>(options: BatcherOptions<Item, Result>): Batcher<Item, Result> {
  const { maxInFlight, flush, now = () => performance.now() } = options;
  const waiting = new WaitingRoom<Item, Waiting<Item, Result>>(options);
  const drained: (() => void)[] = [];
  let inFlight = 0;
  // After this turn's I/O, so that items that arrive in the same turn share a flush.
  const schedule = coalesced(setImmediate, pump);
  // Takes the flush that is left to others once they no longer have items, even if no other flush ends by then.
  const lookAgain = coalesced((run) => setTimeout(run, LOOK_AGAIN_MS).unref(), pump);

  async function run(batch: Batch<Waiting<Item, Result>>): Promise<void> {
    const { entries } = batch;
    try {
      const results = await flush(entries.map((entry) => entry.item));
      if (results.length !== entries.length) {
        throw new Error(`a flush of ${entries.length} items returned ${results.length} results`);
      }
      entries.forEach((entry, index) => entry.resolve(results[index] as Result));
    } catch (error) {
      for (const entry of entries) {
        entry.reject(error);
      }
    } finally {
      inFlight -= 1;
      waiting.ended(batch);
      pump();
    }
  }

  function pump(): void {
    while (inFlight < maxInFlight) {
      const batch = waiting.next(now());
      if (batch === undefined) {
        if (waiting.count > 0) {
          lookAgain();
        }
        break;
      }
      inFlight += 1;
      void run(batch);
    }
    if (inFlight === 0) {
      for (const done of drained.splice(0)) {
        done();
      }
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
