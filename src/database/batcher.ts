/**
 * Group commit: concurrent callers share one statement. Items that come in while earlier statements are under way
 * wait together, so the batch grows with the load and a lone item never waits (architecture 3).
 */

export interface BatcherOptions<Item, Result> {
  /** Handles many items in one go; results in the order of the items. */
  readonly flush: (items: readonly Item[]) => Promise<readonly Result[]>;
  /** Most items of one flush. */
  readonly maxItems: number;
  /** Most flushes under way at once. */
  readonly maxInFlight: number;
  /** Keeps a flush from growing in bytes too; an item that is larger than `max` alone goes alone. */
  readonly size?: { readonly of: (item: Item) => number; readonly max: number };
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

export interface Batcher<Item, Result> {
  /** Resolves with the item's own result, rejects with the flush's error. */
  add(item: Item): Promise<Result>;
  /** Resolves when nothing waits and nothing is under way. */
  drain(): Promise<void>;
}

export function createBatcher<Item, Result>(options: BatcherOptions<Item, Result>): Batcher<Item, Result> {
  const waiting: Waiting<Item, Result>[] = [];
  const drained: (() => void)[] = [];
  let inFlight = 0;
  let scheduled = false;

  /** The next flush: at least one item, and no more than its limits hold. */
  function takeNext(): Waiting<Item, Result>[] {
    const { maxItems, size } = options;
    if (size === undefined) {
      return waiting.splice(0, maxItems);
    }
    let count = 1;
    let total = size.of((waiting[0] as Waiting<Item, Result>).item);
    for (; count < Math.min(maxItems, waiting.length); count += 1) {
      total += size.of((waiting[count] as Waiting<Item, Result>).item);
      if (total > size.max) {
        break;
      }
    }
    return waiting.splice(0, count);
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
      void run(takeNext());
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
      // After the I/O of this turn: what arrived in the same turn of the event loop goes together.
      setImmediate(() => {
        scheduled = false;
        pump();
      });
    }
  }

  return {
    add: async (item) =>
      await new Promise<Result>((resolve, reject) => {
        waiting.push({ item, resolve, reject });
        schedule();
      }),
    drain: async () => {
      if (inFlight > 0 || waiting.length > 0) {
        await new Promise<void>((resolve) => drained.push(resolve));
      }
    },
  };
}
