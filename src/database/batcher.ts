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
  /** Handles a batch, gently if others wait beside it. Returns the results in the order of the items. */
  readonly flush: (items: readonly Item[], gently: boolean) => Promise<readonly Result[]>;
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

/** The entries of a flush. */
interface Batch<Entry> {
  readonly entries: readonly Entry[];
  /** Whether to leave others room; false by default. */
  readonly gently?: boolean;
  /** Called when the flush has ended. */
  readonly ended?: () => void;
}

/** What waits for flushes, and which of it comes next. */
export interface WaitingLine<Item, Entry> {
  readonly count: () => number;
  /** Returns why an item cannot wait; undefined if it can. */
  readonly refusalOf: (item: Item) => Error | undefined;
  readonly enter: (entry: Entry) => void;
  /** Takes the next flush; undefined if nothing may be flushed now. */
  readonly next: () => Batch<Entry> | undefined;
  /** Called once no further flush can begin. */
  readonly rest?: () => void;
}

/** Returns a line that is served in order. */
function inOrder<Item, Entry extends { readonly item: Item }>(
  options: Pick<BatcherOptions<Item, unknown>, "maxItems" | "size" | "maxWaiting">,
): WaitingLine<Item, Entry> {
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
  return new Batcher(options, () => inOrder(options));
}

/** Flushes what waits in a line. */
export class Batcher<Item, Result> {
  readonly #options: FlushOptions<Item, Result>;
  readonly #waiting: WaitingLine<Item, Waiting<Item, Result>>;
  readonly #drained: (() => void)[] = [];
  #inFlight = 0;
  #isScheduled = false;

  /** @param makeLine gets a function that looks for flushes that can begin */
  constructor(
    options: FlushOptions<Item, Result>,
    makeLine: (pump: () => void) => WaitingLine<Item, Waiting<Item, Result>>,
  ) {
    this.#options = options;
    this.#waiting = makeLine(() => this.#pump());
  }

  /**
   * Resolves with the item's own result, or rejects with the flush's error.
   *
   * @throws DatabaseBusyError at once if too many items wait: an unavailable database must not fill the memory
   */
  async add(item: Item): Promise<Result> {
    return await new Promise<Result>((resolve, reject) => {
      const refusal = this.#waiting.refusalOf(item);
      if (refusal !== undefined) {
        reject(refusal);
        return;
      }
      this.#waiting.enter({ item, resolve, reject });
      this.#schedule();
    });
  }

  /** Resolves when nothing waits and no flush is under way. */
  async drain(): Promise<void> {
    if (this.#inFlight > 0 || this.#waiting.count() > 0) {
      await new Promise<void>((resolve) => this.#drained.push(resolve));
    }
  }

  /** Pumps once after this turn's I/O, so that items that arrive in the same turn share a flush. */
  #schedule(): void {
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      this.#options.timers.soon(() => {
        this.#isScheduled = false;
        this.#pump();
      });
    }
  }

  async #run({ entries, gently = false, ended }: Batch<Waiting<Item, Result>>): Promise<void> {
    try {
      const items = entries.map((entry) => entry.item);
      const results = await this.#options.flush(items, gently);
      if (results.length !== entries.length) {
        throw new Error(`a flush of ${entries.length} items returned ${results.length} results`);
      }
      entries.forEach((entry, index) => entry.resolve(results[index] as Result));
    } catch (error) {
      entries.forEach((entry) => entry.reject(error));
    } finally {
      this.#inFlight -= 1;
      ended?.();
      this.#pump();
    }
  }

  #pump(): void {
    while (this.#inFlight < this.#options.maxInFlight) {
      const batch = this.#waiting.next();
      if (batch === undefined) {
        break;
      }
      this.#inFlight += 1;
      void this.#run(batch);
    }
    this.#waiting.rest?.();
    if (this.#inFlight === 0 && this.#waiting.count() === 0) {
      for (const done of this.#drained.splice(0)) {
        done();
      }
    }
  }
}
