/**
 * How often somebody may fail: so many times in 5 minutes, then the wait doubles with every failure that comes before
 * it has passed. A success clears the account. Failures are counted after the credential was judged: a good one is never
 * refused for the failures of others.
 */
import type { SignetError } from "../../domain/errors.ts";
import { NarrowGate } from "./narrow-gate.ts";
import { type Limit, rateLimited } from "./rate-limited.ts";
import { BoundedLimiter } from "./rate-limiter.ts";

const WINDOW_SECONDS = 300;
const FIRST_WAIT_SECONDS = 10;
/** A token's lifetime. */
const LONGEST_WAIT_SECONDS = 900;
/** How long the doubling is remembered after the last refusal. */
const REMEMBERED_SECONDS = 3_600;

export interface FailureLimiter {
  /**
   * Runs the check of a credential; for a key beyond its limit, one at a time.
   *
   * @throws SignetError RATE_LIMITED when too many checks of such a key wait
   */
  check<T>(key: string, check: () => Promise<T>): Promise<T>;
  /** Counts a failure: undefined within the limit, else the 429 to answer with; each one doubles its wait. */
  failed(key: string): Promise<SignetError | undefined>;
  succeeded(key: string): Promise<void>;
}

const UNLIMITED: FailureLimiter = {
  check: async (_key, check) => await check(),
  failed: async () => undefined,
  succeeded: async () => undefined,
};

export interface FailureLimit {
  /** Failures within 5 minutes; 0: no limit. */
  readonly count: number;
  /** As the metric calls it. */
  readonly limit: Limit;
  /** What is answered beyond it. */
  readonly detail: string;
}

function waitSeconds(refusals: number): number {
  return Math.min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** refusals);
}

export function createFailureLimiter({ count, limit, detail }: FailureLimit): FailureLimiter {
  if (count === 0) {
    return UNLIMITED;
  }
  const failures = new BoundedLimiter({ count, perSeconds: WINDOW_SECONDS });
  const refusals = new BoundedLimiter({ count: Number.MAX_SAFE_INTEGER, perSeconds: REMEMBERED_SECONDS });
  const gate = new NarrowGate(limit);

  const isBeyond = async (key: string): Promise<boolean> => (await failures.count(key)).counted > count;

  /** Beyond the limit, for as long as the wait takes. */
  async function block(key: string, seconds: number): Promise<void> {
    await failures.set(key, count + 1, seconds);
  }

  return {
    check: async (key, check) => ((await isBeyond(key)) ? await gate.run(key, check) : await check()),
    failed: async (key) => {
      const { counted: refused } = await refusals.count(key);
      if (await isBeyond(key)) {
        const seconds = waitSeconds(refused);
        await block(key, seconds);
        await refusals.set(key, refused + 1, REMEMBERED_SECONDS);
        return rateLimited(limit, seconds * 1_000, detail);
      }
      const { counted } = await failures.add(key);
      // Whoever was refused before has one try after each wait, not a fresh account.
      if (counted >= count || refused > 0) {
        await block(key, waitSeconds(refused));
      }
      return undefined;
    },
    succeeded: async (key) => {
      await failures.forget(key);
      await refusals.forget(key);
    },
  };
}
