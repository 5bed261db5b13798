/**
 * Limits failures to a number within 5 minutes, for each network of the sender. Wider networks may have more. Beyond the
 * limit, each failure before the wait has passed doubles the wait. A success resets the networks. Failures are counted
 * after the credential check, so a valid credential is never rejected for the failures of others.
 */
import type { SignetError } from "#domain/errors.ts";
import { FixedWindows } from "#domain/fixed-windows.ts";
import type { LimitedNetwork } from "./address-key.ts";
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
   * Runs the check of a credential. For a network beyond its limit, checks run one at a time.
   *
   * @param networks of the sender, the narrowest first
   * @throws SignetError RATE_LIMITED if too many checks of such a network are waiting
   */
  async check<T>(networks: readonly LimitedNetwork[], check: () => Promise<T>): Promise<T> {
    const nowMs = this.#options.monotonic();
    const beyond = networks.find(({ key, hosts }) => this.#failures.isUsedUp(key, nowMs, hosts));
    return beyond === undefined ? await check() : await this.#gate.run(beyond.key, check);
  }

  /**
   * Counts a failure, also against wider networks unless a narrower one is beyond its limit. Returns undefined within the
   * limits, otherwise a 429, which doubles the wait each time.
   */
  failed(networks: readonly LimitedNetwork[]): SignetError | undefined {
    for (const network of networks) {
      const refusal = this.#failedOf(network);
      if (refusal !== undefined) {
        return refusal;
      }
    }
    return undefined;
  }

  #failedOf({ key, hosts }: LimitedNetwork): SignetError | undefined {
    const { count, limit, detail, monotonic } = this.#options;
    const nowMs = monotonic();
    const refused = this.#refusals.counted(key, nowMs);
    const waitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** refused);
    if (this.#failures.isUsedUp(key, nowMs, hosts)) {
      this.#failures.set(key, count * hosts, nowMs + waitMs);
      this.#refusals.set(key, refused + 1, nowMs + REMEMBERED_MS);
      return rateLimited(limit, waitMs, detail);
    }
    this.#failures.take(key, nowMs, hosts);
    // A key that was rejected before gets only one attempt after each wait, not a full quota.
    if (refused > 0 || this.#failures.isUsedUp(key, nowMs, hosts)) {
      this.#failures.set(key, count * hosts, nowMs + waitMs);
    }
    return undefined;
  }

  succeeded(networks: readonly LimitedNetwork[]): void {
    for (const { key } of networks) {
      this.#failures.forget(key);
      this.#refusals.forget(key);
    }
  }
}
