/**
 * The SDK keeps an activity's context, and the deadline of a call to Temporal, in an `AsyncLocalStorage`. The first use
 * of one makes Node follow every promise of the whole process from then on (decision 0007). Ours are read in the same
 * turn in which they are set, and for that a variable does.
 */
import type { AsyncLocalStorage } from "node:async_hooks";

/** Makes a storage hold its value during the synchronous part of what it runs, and no longer. */
export function useSynchronousContext<T>(storage: AsyncLocalStorage<T>): void {
  let current: T | undefined;
  Object.assign(storage, {
    getStore: () => current,
    run: <R, A extends unknown[]>(value: T, work: (...args: A) => R, ...args: A): R => {
      const outer = current;
      current = value;
      try {
        return work(...args);
      } finally {
        current = outer;
      }
    },
  });
}
