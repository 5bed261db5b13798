/** Time that this process' event loop really had: what passes while it is late is not the silence of others. */

const PARTS = 5;

/**
 * Calls back when the loop has had `ms` milliseconds: each fifth of them ends with a turn in which sockets were read,
 * and a fifth during which the loop was stalled counts once, however long it took.
 *
 * @returns what cancels it
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
    // A timer that is late fires before the answer that has long arrived is read: immediates come after the sockets.
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

/** Waits for work that settles when it is given up, which it is after `ms` milliseconds of the loop's time. */
export async function withinLoopTime<T>(ms: number, work: Promise<T>, giveUp: () => void): Promise<T> {
  const cancel = afterLoopTime(ms, giveUp);
  try {
    return await work;
  } finally {
    cancel();
  }
}
