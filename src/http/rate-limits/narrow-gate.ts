/**
 * Checks of credentials for those beyond a limit. Nobody is refused for what others at the same address sent, so each
 * credential is judged; but one at a time per key, so that a flood of bad ones cannot take the database.
 */
import { type Limit, rateLimited } from "./rate-limited.ts";

/** Checks of one key that wait for the one under way. */
const WAITING_MAX = 64;
const RETRY_AFTER_MS = 1_000;

export class NarrowGate {
  readonly #limit: Limit;
  /** What runs last, and how many are under way or waiting, by key. */
  readonly #lines = new Map<string, { last: Promise<unknown>; length: number }>();

  constructor(limit: Limit) {
    this.#limit = limit;
  }

  /** Runs the check when the earlier ones of its key have ended. @throws SignetError RATE_LIMITED when 64 wait already */
  async run<T>(key: string, check: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(key) ?? { last: Promise.resolve(), length: 0 };
    if (line.length > WAITING_MAX) {
      throw rateLimited(this.#limit, RETRY_AFTER_MS, "Too many requests from this address at once.");
    }
    this.#lines.set(key, line);
    line.length += 1;
    const result = line.last.then(check);
    line.last = result.catch(() => undefined);
    try {
      return await result;
    } finally {
      line.length -= 1;
      if (line.length === 0) {
        this.#lines.delete(key);
      }
    }
  }
}
