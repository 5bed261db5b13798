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
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

export interface Batcher<Item, Result> {
  /**
   * Resolves with the item's own result, or rejects with the flush's error.
   *
   * @throws DatabaseBusyError at once if too many items wait: an unavailable database must not fill the memory
   */
  add(item: Item): Promise<Result>;
  /** Resolves when nothing waits and no flush is under way. */
  drain(): Promise<void>;
}

/** Returns how many waiting items the next flush takes: at least one, within the limits. */
function countNext<Item, Result>(
  waiting: readonly Waiting<Item, Result>[],
  { maxItems, size }: BatcherOptions<Item, Result>,
): { readonly count: number; readonly total: number } {
  const most = Math.min(maxItems, waiting.length);
  if (size === undefined) {
    return { count: most, total: 0 };
  }
  let total = 0;
  for (let count = 0; count < most; count += 1) {
    const more = size.of((waiting[count] as Waiting<Item, Result>).item);
    if (count > 0 && total + more > size.max) {
      return { count, total };
    }
    total += more;
  }
  return { count: most, total };
}

export function createBatcher<Item, Result>(options: BatcherOptions<Item, Result>): Batcher<Item, Result> {
  const { maxWaiting = WAITING_ITEMS_MAX, size: limit } = options;
  const waiting: Waiting<Item, Result>[] = [];
  let waitingSize = 0;
  const drained: (() => void)[] = [];
  let inFlight = 0;
  let scheduled = false;

  function isFull(): boolean {
    return waiting.length >= maxWaiting || waitingSize >= (limit?.maxWaiting ?? Number.POSITIVE_INFINITY);
  }

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
      const { count, total } = countNext(waiting, options);
      waitingSize -= total;
      void run(waiting.splice(0, count));
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
        if (isFull()) {
          reject(new DatabaseBusyError("too many items wait for the database"));
          return;
        }
        waiting.push({ item, resolve, reject });
        waitingSize += limit?.of(item) ?? 0;
        schedule();
      }),
    drain: async () => {
      if (inFlight > 0 || waiting.length > 0) {
        await new Promise<void>((resolve) => drained.push(resolve));
      }
    },
  };
}
