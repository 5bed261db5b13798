/**
 * The SDK keeps an activity's context, and the deadline of a call to Temporal, in an `AsyncLocalStorage`. Its first
 * use makes Node track every promise of the process (decision 7). We read these values in the same turn in which
 * they are set, so a variable is sufficient.
 */
import type { AsyncLocalStorage } from "node:async_hooks";

/** Makes a storage hold its value only during the synchronous part of what it runs. */
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
