/** A batcher in which no owner's items delay those of others, and items are prepared before their flush. */
import { Batcher, type FlushOptions, type Waiting, type WaitingLine } from "#database/batcher.ts";
import type { Timer, Timers } from "#domain/clock.ts";
import { OTHERS_MS, type WaitingOptions, WaitingRoom } from "./waiting-room.ts";

/** Longer, because timers may be some milliseconds early. */
const LOOK_AGAIN_MS = OTHERS_MS + 50;

export interface FairBatcherOptions<Item, Result> extends WaitingOptions<Item>, FlushOptions<Item, Result> {}

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

/** Creates a batcher by owner. Its `add` also rejects with the owner's `refusal` if too many of its items wait. */
export function createFairBatcher<Item, Result>(
  options: FairBatcherOptions<Item, Result>,
): Batcher<Item, Result> {
  const { preparation, timers } = options;
  return new Batcher(options, (pump): WaitingLine<Item, Waiting<Item, Result>> => {
    const waiting = new WaitingRoom<Item, Waiting<Item, Result>>(options);
    // Takes what waits though no flush ends by then: after a rest, or the flush that is left to others once they no
    // longer have items.
    const alarm = new Alarm(timers, pump);

    async function prepare(owner: string, items: readonly Item[]): Promise<void> {
      const failure = await failureOf(preparation?.prepare(items));
      for (const entry of waiting.prepared(owner, failure !== undefined)) {
        entry.reject(failure?.error);
      }
      pump();
    }

    return {
      count: () => waiting.count,
      refusalOf: (item) => waiting.refusalOf(item),
      enter: (entry) => waiting.enter(entry),
      next: () => {
        const nowMs = timers.monotonic();
        const batch = waiting.next(nowMs);
        if (batch === undefined && waiting.count > 0) {
          alarm.setIn(waiting.restMs(nowMs) || LOOK_AGAIN_MS, nowMs);
        }
        return (
          batch && {
            entries: batch.entries,
            gently: batch.gently,
            ended: () => waiting.ended(batch, timers.monotonic()),
          }
        );
      },
      rest: () => {
        for (const { owner, items } of waiting.unprepared()) {
          void prepare(owner, items);
        }
      },
    };
  });
}
