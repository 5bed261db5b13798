/** Timeouts in the event loop's own time: while the loop is late, the silence of others does not count. */
import type { Timer, Timers } from "#domain/clock.ts";

const PARTS = 5;

/**
 * Calls back after `ms` milliseconds of the loop's time. Each fifth of it ends with a turn in which sockets were read.
 * A fifth during which the loop stalled counts once, however long the stall was.
 *
 * @returns a function that cancels it
 */
export function afterLoopTime(timers: Timers, ms: number, callback: () => void): () => void {
  let left = PARTS;
  let timer: Timer;
  let cancelled = false;
  const pass = (): void => {
    if (cancelled) {
      return;
    }
    left -= 1;
    if (left === 0) {
      callback();
    } else {
      wait();
    }
  };
  const wait = (): void => {
    // A late timer fires before the sockets are read. An immediate runs after that, so an answer in time counts.
    timer = timers.after(ms / PARTS, () => timers.soon(pass));
  };
  wait();
  return () => {
    cancelled = true;
    timers.cancel(timer);
  };
}

/** Waits for `work`. After `ms` milliseconds of the loop's time, calls `giveUp`, which must make `work` settle. */
export async function withinLoopTime<T>(
  timers: Timers,
  ms: number,
  work: Promise<T>,
  giveUp: () => void,
): Promise<T> {
  const cancel = afterLoopTime(timers, ms, giveUp);
  try {
    return await work;
  } finally {
    cancel();
  }
}
