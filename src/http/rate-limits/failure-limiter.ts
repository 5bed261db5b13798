/**
 * Limits failures per key to a number within 5 minutes. Beyond it, each failure before the wait has passed doubles the
 * wait. A success resets the key. Failures are counted after the credential check, so a valid credential is never
 * rejected for the failures of others.
 */
import type { SignetError } from "../../domain/errors.ts";
import { NarrowGate } from "./narrow-gate.ts";
import { type Limit, rateLimited } from "./rate-limited.ts";
import { BoundedLimiter } from "./rate-limiter.ts";

const WINDOW_SECONDS = 300;
const FIRST_WAIT_SECONDS = 10;
/** Maximum wait: a token's lifetime. */
const LONGEST_WAIT_SECONDS = 900;
/** How long the doubling lasts after the last rejection. */
const REMEMBERED_SECONDS = 3_600;

export interface FailureLimiter {
  /**
   * Runs the check of a credential. For a key beyond its limit, checks run one at a time.
   *
   * @throws SignetError RATE_LIMITED if too many checks of such a key are waiting
   */
  check<T>(key: string, check: () => Promise<T>): Promise<T>;
  /** Counts a failure. Returns undefined within the limit, otherwise a 429, which doubles the wait each time. */
  failed(key: string): Promise<SignetError | undefined>;
  succeeded(key: string): Promise<void>;
}

const UNLIMITED: FailureLimiter = {
  check: async (_key, check) => await check(),
  failed: async () => undefined,
  succeeded: async () => undefined,
};

export interface FailureLimit {
  /** Allowed failures within 5 minutes; 0 for no limit. */
  readonly count: number;
  /** Label of the metric. */
  readonly limit: Limit;
  /** Error detail of the 429. */
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

  /** Puts the key beyond the limit for the given time. */
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
      // A key that was rejected before gets only one attempt after each wait, not a full quota.
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
