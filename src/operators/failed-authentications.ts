/**
 * Slows down whoever guesses at the operators' door: an address that failed often has to wait, twice as long each time.
 * In memory, per process and bounded.
 */
import type { Clock } from "../domain/clock.ts";
import { SignetError } from "../errors.ts";

/** Failures that cost nothing. */
const FREE_FAILURES = 10;
const FIRST_WAIT_MS = 5_000;
const LONGEST_WAIT_MS = 900_000;
/** An address that did nothing for this long starts anew. */
const FORGET_MS = 1_800_000;
const ADDRESSES_MAX = 10_000;

interface Failures {
  readonly count: number;
  readonly lastAt: number;
  readonly waitUntil: number;
}

export interface FailedAuthentications {
  /** @throws SignetError RATE_LIMITED with `Retry-After` while the address has to wait */
  check(address: string): void;
  /** Notes a failure of the address. */
  fail(address: string): void;
  /** Notes a success: the address starts anew. */
  succeed(address: string): void;
}

/** Makes the limit. */
export function createFailedAuthentications(clock: Clock): FailedAuthentications {
  const known = new Map<string, Failures>();

  function recent(address: string): Failures | undefined {
    const failures = known.get(address);
    return failures !== undefined && clock.now() - failures.lastAt < FORGET_MS ? failures : undefined;
  }

  return {
    check: (address) => {
      const waitMs = (recent(address)?.waitUntil ?? 0) - clock.now();
      if (waitMs > 0) {
        const seconds = Math.ceil(waitMs / 1_000);
        throw new SignetError("RATE_LIMITED", {
          detail: `Too many failed attempts from this address; wait ${seconds} s.`,
          headers: { "retry-after": String(seconds) },
        });
      }
    },
    fail: (address) => {
      const count = (recent(address)?.count ?? 0) + 1;
      const lastAt = clock.now();
      const over = count - FREE_FAILURES;
      const waitMs = over < 0 ? 0 : Math.min(FIRST_WAIT_MS * 2 ** over, LONGEST_WAIT_MS);
      // Deleted and set again: the map's order is the order of the last failures.
      known.delete(address);
      known.set(address, { count, lastAt, waitUntil: lastAt + waitMs });
      if (known.size > ADDRESSES_MAX) {
        const [oldest] = known.keys();
        known.delete(oldest ?? address);
      }
    },
    succeed: (address) => {
      known.delete(address);
    },
  };
}
