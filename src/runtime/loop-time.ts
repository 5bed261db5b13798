/** Timeouts in the event loop's own time: while the loop is late, the silence of others does not count. */

const PARTS = 5;

/**
 * Calls back after `ms` milliseconds of the loop's time. Each fifth of it ends with a turn in which sockets were read.
 * A fifth during which the loop stalled counts once, however long the stall was.
 *
 * @returns a function that cancels it
 */
export function afterLoopTime(ms: number, callback: () => void): () => void {
  let left = PARTS;
  let timer: NodeJS.Timeout;
  let immediate: NodeJS.Immediate | undefined;
  const pass = (): void => {
    left -= 1;
    if (left === 0) {
      callback();
    } else {
      wait();
    }
  };
  const wait = (): void => {
    // A late timer fires before the sockets are read. An immediate runs after that, so an answer in time counts.
    timer = setTimeout(() => {
      immediate = setImmediate(pass);
    }, ms / PARTS);
  };
  wait();
  return () => {
    clearTimeout(timer);
    clearImmediate(immediate);
  };
}

/** Waits for `work`. After `ms` milliseconds of the loop's time, calls `giveUp`, which must make `work` settle. */
export async function withinLoopTime<T>(ms: number, work: Promise<T>, giveUp: () => void): Promise<T> {
  const cancel = afterLoopTime(ms, giveUp);
  try {
    return await work;
  } finally {
    cancel();
  }
}
