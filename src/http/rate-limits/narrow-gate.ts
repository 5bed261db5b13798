/**
 * Serializes credential checks of keys beyond a limit. Each credential is still checked, so that no caller is rejected
 * for others at the same address. Only one check per key runs at a time, so that a flood cannot overload the database.
 */
import { type Limit, rateLimited } from "./rate-limited.ts";

/** Maximum number of waiting checks per key. */
const WAITING_MAX = 64;
const RETRY_AFTER_MS = 1_000;

export class NarrowGate {
  readonly #limit: Limit;
  /** By key: the last check, and the number of running and waiting checks. */
  readonly #lines = new Map<string, { last: Promise<unknown>; length: number }>();

  constructor(limit: Limit) {
    this.#limit = limit;
  }

  /** Runs the check after the earlier ones of its key. @throws SignetError RATE_LIMITED if 64 are already waiting */
  async run<T>(key: string, check: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(key) ?? { last: Promise.resolve(), length: 0 };
    if (line.length > WAITING_MAX) {
      throw rateLimited(this.#limit, RETRY_AFTER_MS, "Too many concurrent requests from this address.");
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
