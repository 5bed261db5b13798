/**
 * Limits failures per key to a number within 5 minutes. Beyond it, each failure before the wait has passed doubles the
 * wait. A success resets the key. Failures are counted after the credential check, so a valid credential is never
 * rejected for the failures of others.
 */
import type { SignetError } from "../../domain/errors.ts";
import { FixedWindows } from "../../domain/fixed-windows.ts";
import { NarrowGate } from "./narrow-gate.ts";
import { type Limit, rateLimited } from "./rate-limited.ts";

const WINDOW_MS = 300_000;
const FIRST_WAIT_MS = 10_000;
/** Maximum wait: a token's lifetime. */
const LONGEST_WAIT_MS = 900_000;
/** How long the doubling lasts after the last rejection. */
const REMEMBERED_MS = 3_600_000;

export interface FailureLimit {
  /** Allowed failures within 5 minutes; 0 for no limit. */
  readonly count: number;
  /** Label of the metric. */
  readonly limit: Limit;
  /** Error detail of the 429. */
  readonly detail: string;
  /** Monotonic clock, in milliseconds. */
  readonly monotonic: () => number;
}

export class FailureLimiter {
  readonly #options: FailureLimit;
  readonly #failures: FixedWindows;
  readonly #refusals = new FixedWindows({ count: Infinity, perMs: REMEMBERED_MS });
  readonly #gate: NarrowGate;

  constructor(options: FailureLimit) {
    this.#options = options;
    this.#failures = new FixedWindows({ count: options.count, perMs: WINDOW_MS });
    this.#gate = new NarrowGate(options.limit);
  }

  /**
   * Runs the check of a credential. For a key beyond its limit, checks run one at a time.
   *
   * @throws SignetError RATE_LIMITED if too many checks of such a key are waiting
   */
  async check<T>(key: string, check: () => Promise<T>): Promise<T> {
    const isBeyond = this.#failures.isUsedUp(key, this.#options.monotonic());
    return isBeyond ? await this.#gate.run(key, check) : await check();
  }

  /** Counts a failure. Returns undefined within the limit, otherwise a 429, which doubles the wait each time. */
  failed(key: string): SignetError | undefined {
    const { count, limit, detail, monotonic } = this.#options;
    const nowMs = monotonic();
    const refused = this.#refusals.counted(key, nowMs);
    const waitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** refused);
    if (this.#failures.isUsedUp(key, nowMs)) {
      this.#failures.set(key, count, nowMs + waitMs);
      this.#refusals.set(key, refused + 1, nowMs + REMEMBERED_MS);
      return rateLimited(limit, waitMs, detail);
    }
    this.#failures.take(key, nowMs);
    // A key that was rejected before gets only one attempt after each wait, not a full quota.
    if (refused > 0 || this.#failures.isUsedUp(key, nowMs)) {
      this.#failures.set(key, count, nowMs + waitMs);
    }
    return undefined;
  }

  succeeded(key: string): void {
    this.#failures.forget(key);
    this.#refusals.forget(key);
  }
}
