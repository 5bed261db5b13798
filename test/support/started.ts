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
  let starting: Promise<T> | undefined;
  beforeAll(async () => {
    starting = start();
    started = await starting;
  });
  // A start that took too long for the hook ends later, and must not stay.
  afterAll(async () => {
    const late = await starting?.catch(() => undefined);
    await late?.close();
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
