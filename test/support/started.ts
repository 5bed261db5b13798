/** What a test file starts for itself. */
import { afterAll, beforeAll } from "vitest";

/**
 * Something for the file or `describe` that calls this: started before its tests, closed after them.
 *
 * @param what names it, for whoever asks too early
 */
export function useStarted<T extends { close(): Promise<void> }>(
  what: string,
  start: () => Promise<T>,
): { readonly current: T } {
  let started: T | undefined;
  beforeAll(async () => {
    started = await start();
  });
  afterAll(async () => {
    await started?.close();
  });
  return {
    get current() {
      if (started === undefined) {
        throw new Error(`${what} is started in beforeAll: use it in tests and later hooks`);
      }
      return started;
    },
  };
}
