/** Resources of a test file that need starting and closing. */
import { afterAll, beforeAll } from "vitest";

/**
 * Provides a resource to the calling file or `describe`, started before its tests and closed after them.
 *
 * @param what name of the resource, for the error on early use
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
        throw new Error(`${what} is started in beforeAll; use it in tests and later hooks`);
      }
      return started;
    },
  };
}
