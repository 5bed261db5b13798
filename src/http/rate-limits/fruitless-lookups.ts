/**
 * Limits unauthenticated database look-ups: of a sign-in link, a session, a producer's key. A look-up without a result
 * counts against its address. Beyond the limit look-ups still run, one at a time. So an existing item is always found,
 * despite the failures of others at the address.
 */
import { FixedWindows } from "#domain/fixed-windows.ts";
import { networksOf, takeFrom } from "./address-key.ts";
import { NarrowGate } from "./narrow-gate.ts";
import { rateLimited } from "./rate-limited.ts";

const PER_MS = 60_000;

export class FruitlessLookups {
  readonly #windows: FixedWindows;
  readonly #gate = new NarrowGate("lookups");
  readonly #monotonic: () => number;

  /**
   * @param count look-ups without a result per address and minute; 0 for no limit
   * @param monotonic monotonic clock, in milliseconds
   */
  constructor(count: number, monotonic: () => number) {
    this.#windows = new FixedWindows({ count, perMs: PER_MS });
    this.#monotonic = monotonic;
  }

  /**
   * Runs a look-up; an undefined result counts against the address.
   *
   * @throws SignetError RATE_LIMITED instead of returning undefined, once the address is beyond the limit
   */
  async find<T>(address: string, find: () => Promise<T | undefined>): Promise<T | undefined> {
    const beyond = networksOf(address).find(({ key, hosts }) =>
      this.#windows.isUsedUp(key, this.#monotonic(), hosts),
    );
    const found = beyond === undefined ? await find() : await this.#gate.run(beyond.key, find);
    if (found !== undefined) {
      return found;
    }
    const refused = takeFrom(address, ({ key, hosts }) => this.#windows.take(key, this.#monotonic(), hosts));
    if (refused !== undefined) {
      throw rateLimited(
        "lookups",
        refused.waitMs,
        "Too many requests from this address for unknown resources.",
      );
    }
    return undefined;
  }
}
