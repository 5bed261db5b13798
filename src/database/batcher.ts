/**
 * Group commit: concurrent callers share one statement. Items that arrive during earlier statements wait together. Thus
 * the batch grows with the load, and a lone item never waits.
 */
import type { Timers } from "#domain/clock.ts";
import { DatabaseBusyError } from "./errors.ts";

/** Default limit of items that wait while flushes are under way. */
export const WAITING_ITEMS_MAX = 10_000;

/** How a batch is handled, and by how many at once. */
export interface FlushOptions<Item, Result> {
  /** Maximum number of concurrent flushes. */
  readonly maxInFlight: number;
  /** Handles a batch. Returns the results in the order of the items. */
  readonly flush: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly timers: Timers;
}

export interface BatcherOptions<Item, Result> extends FlushOptions<Item, Result> {
  /** Maximum number of items per flush. */
  readonly maxItems: number;
  /** Also limits a flush by size. An item that alone exceeds `max` is flushed alone. */
  readonly size?: { readonly of: (item: Item) => number; readonly max: number };
  /** Maximum number of waiting items; 10,000 by default. */
  readonly maxWaiting?: number;
}

/** An item with its caller. */
export interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/** What waits for flushes, and which of it comes next. */
export interface WaitingLine<Item, Entry, Batch> {
  readonly count: () => number;
  /** Returns why an item cannot wait; undefined if it can. */
  readonly refusalOf: (item: Item) => Error | undefined;
  readonly enter: (entry: Entry) => void;
  /** Takes the next flush; undefined if nothing may be flushed now. */
  readonly next: () => Batch | undefined;
  /** Notes the end of a flush. */
  readonly ended?: (batch: Batch) => void;
  /** Called once no further flush can begin. */
  readonly rest?: () => void;
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

/** Returns a line that is served in order. */
function inOrder<Item, Entry extends { readonly item: Item }>(
  options: Pick<BatcherOptions<Item, unknown>, "maxItems" | "size" | "maxWaiting">,
): WaitingLine<Item, Entry, { readonly entries: readonly Entry[] }> {
  const { maxItems, size, maxWaiting = WAITING_ITEMS_MAX } = options;
  const entries: Entry[] = [];
  /** Returns how many entries fit into a flush. */
  const countNext = (): number => {
    let count = 0;
    let left = size?.max ?? 0;
    for (const { item } of entries.slice(0, maxItems)) {
      left -= size?.of(item) ?? 0;
      if (left < 0) {
        break;
      }
      count += 1;
    }
    return Math.max(1, count);
  };
  return {
    count: () => entries.length,
    refusalOf: () =>
      entries.length < maxWaiting ? undefined : new DatabaseBusyError("too many items wait for the database"),
    enter: (entry) => entries.push(entry),
    next: () => (entries.length === 0 ? undefined : { entries: entries.splice(0, countNext()) }),
  };
}

/** Creates a batcher that flushes items in their order. */
export function createBatcher<Item, Result>(options: BatcherOptions<Item, Result>): Batcher<Item, Result> {
  return batcherOf(options, () => inOrder<Item, Waiting<Item, Result>>(options));
}

/**
 * Creates a batcher with a line of its own.
 *
 * @param makeLine gets a function that looks for flushes that can begin
 */
export function batcherOf<Item, Result, Batch extends { readonly entries: readonly Waiting<Item, Result>[] }>(
  { maxInFlight, flush, timers }: FlushOptions<Item, Result>,
  makeLine: (pump: () => void) => WaitingLine<Item, Waiting<Item, Result>, Batch>,
): Batcher<Item, Result> {
  const waiting = makeLine(pump);
  const drained: (() => void)[] = [];
  let inFlight = 0;
  // After this turn's I/O, so that items that arrive in the same turn share a flush.
  const schedule = coalesced(timers.soon, pump);

  async function run(batch: Batch): Promise<void> {
    const { entries } = batch;
    try {
      const results = await flush(entries.map((entry) => entry.item));
      if (results.length !== entries.length) {
        throw new Error(`a flush of ${entries.length} items returned ${results.length} results`);
      }
      entries.forEach((entry, index) => entry.resolve(results[index] as Result));
    } catch (error) {
      entries.forEach((entry) => entry.reject(error));
    } finally {
      inFlight -= 1;
      waiting.ended?.(batch);
      pump();
    }
  }

  function pump(): void {
    while (inFlight < maxInFlight) {
      const batch = waiting.next();
      if (batch === undefined) {
        break;
      }
      inFlight += 1;
      void run(batch);
    }
    waiting.rest?.();
    if (inFlight === 0 && waiting.count() === 0) {
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
      if (inFlight > 0 || waiting.count() > 0) {
        await new Promise<void>((resolve) => drained.push(resolve));
      }
    },
  };
}
