/**
 * Limits unauthenticated database look-ups: of a sign-in link, a session, a producer's key. A look-up without a result
 * counts against its address. Beyond the limit look-ups still run, one at a time. So an existing item is always found,
 * despite the failures of others at the address.
 */
import { FixedWindows } from "../../domain/fixed-windows.ts";
import { addressKey } from "./address-key.ts";
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
    const key = addressKey(address);
    const isBeyond = this.#windows.isUsedUp(key, this.#monotonic());
    const found = isBeyond ? await this.#gate.run(key, find) : await find();
    const waitMs = found === undefined ? this.#windows.take(key, this.#monotonic()) : 0;
    if (waitMs > 0) {
      throw rateLimited("lookups", waitMs, "Too many requests from this address for unknown resources.");
    }
    return found;
  }
}
