/**
 * Group commit: concurrent callers share one statement. Items that arrive during earlier statements wait together. Thus
 * the batch grows with the load, and a lone item never waits.
 */
import type { Timer, Timers } from "#domain/clock.ts";
import { type Batch, OTHERS_MS, type WaitingOptions, WaitingRoom } from "./waiting-room.ts";

/** Longer, because timers may be some milliseconds early. */
const LOOK_AGAIN_MS = OTHERS_MS + 50;

export interface BatcherOptions<Item, Result> extends WaitingOptions<Item> {
  /** Handles a batch. Returns the results in the order of the items. */
  readonly flush: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly timers: Timers;
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

/** Rings once, at the earliest of the times that it was set to. */
class Alarm {
  readonly #timers: Pick<Timers, "after" | "cancel">;
  readonly #ring: () => void;
  #timer: Timer | undefined;
  #atMs = Number.POSITIVE_INFINITY;

  constructor(timers: Pick<Timers, "after" | "cancel">, ring: () => void) {
    this.#timers = timers;
    this.#ring = ring;
  }

  /** @param nowMs monotonic, in milliseconds */
  setIn(ms: number, nowMs: number): void {
    if (nowMs + ms >= this.#atMs) {
      return;
    }
    this.#timers.cancel(this.#timer);
    this.#atMs = nowMs + ms;
    this.#timer = this.#timers
      .after(Math.ceil(ms), () => {
        this.#atMs = Number.POSITIVE_INFINITY;
        this.#ring();
      })
      .unref();
  }
}

async function failureOf(
  work: Promise<unknown> | undefined,
): Promise<{ readonly error: unknown } | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    return { error };
  }
}

export function createBatcher<Item, Result>(options: BatcherOptions<Item, Result>): Batcher<Item, Result> {
  const { maxInFlight, flush, preparation, timers } = options;
  const waiting = new WaitingRoom<Item, Waiting<Item, Result>>(options);
  const drained: (() => void)[] = [];
  let inFlight = 0;
  // After this turn's I/O, so that items that arrive in the same turn share a flush.
  const schedule = coalesced(timers.soon, pump);
  // Takes what waits though no flush ends by then: after a rest, or the flush that is left to others once they no longer
  // have items.
  const alarm = new Alarm(timers, pump);

  async function run(batch: Batch<Waiting<Item, Result>>): Promise<void> {
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
      waiting.ended(batch, timers.monotonic());
      pump();
    }
  }

  async function prepare(owner: string, items: readonly Item[]): Promise<void> {
    const failure = await failureOf(preparation?.prepare(items));
    for (const entry of waiting.prepared(owner, failure !== undefined)) {
      entry.reject(failure?.error);
    }
    pump();
  }

  function pump(): void {
    while (inFlight < maxInFlight) {
      const nowMs = timers.monotonic();
      const batch = waiting.next(nowMs);
      if (batch === undefined) {
        if (waiting.count > 0) {
          alarm.setIn(waiting.restMs(nowMs) || LOOK_AGAIN_MS, nowMs);
        }
        break;
      }
      inFlight += 1;
      void run(batch);
    }
    for (const { owner, items } of waiting.unprepared()) {
      void prepare(owner, items);
    }
    if (inFlight === 0 && waiting.count === 0) {
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
