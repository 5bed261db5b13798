/**
 * How often somebody may fail: so many times in 5 minutes, then the wait doubles with every request that comes before
 * it is over. A success clears the account.
 */
import { BoundedLimiter } from "./rate-limiter.ts";

const WINDOW_SECONDS = 300;
const FIRST_WAIT_SECONDS = 10;
/** A token's lifetime. */
const LONGEST_WAIT_SECONDS = 900;
/** How long the doubling is remembered after the last refusal. */
const REMEMBERED_SECONDS = 3_600;

export interface FailureLimiter {
  /** 0 when the key may try, else the milliseconds to wait; asking too early doubles them. */
  refuse(key: string): Promise<number>;
  failed(key: string): Promise<void>;
  succeeded(key: string): Promise<void>;
}

const UNLIMITED: FailureLimiter = {
  refuse: async () => 0,
  failed: async () => undefined,
  succeeded: async () => undefined,
};

function waitSeconds(refusals: number): number {
  return Math.min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** refusals);
}

/** @param count failures within 5 minutes; 0: no limit */
export function createFailureLimiter(count: number): FailureLimiter {
  if (count === 0) {
    return UNLIMITED;
  }
  const failures = new BoundedLimiter({ count, perSeconds: WINDOW_SECONDS });
  const refusals = new BoundedLimiter({ count: Number.MAX_SAFE_INTEGER, perSeconds: REMEMBERED_SECONDS });

  /** Beyond the limit, for as long as the wait takes. */
  async function block(key: string, seconds: number): Promise<void> {
    await failures.set(key, count + 1, seconds);
  }

  return {
    refuse: async (key) => {
      if ((await failures.count(key)).counted <= count) {
        return 0;
      }
      const { counted } = await refusals.count(key);
      const seconds = waitSeconds(counted);
      await block(key, seconds);
      await refusals.set(key, counted + 1, REMEMBERED_SECONDS);
      return seconds * 1_000;
    },
    failed: async (key) => {
      const { counted } = await failures.add(key);
      const { counted: refused } = await refusals.count(key);
      // Who was refused before has one try after each wait, not a fresh account.
      if (counted >= count || refused > 0) {
        await block(key, waitSeconds(refused));
      }
    },
    succeeded: async (key) => {
      await failures.forget(key);
      await refusals.forget(key);
    },
  };
}
