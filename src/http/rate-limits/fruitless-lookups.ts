/**
 * Limits unauthenticated database look-ups: of a sign-in link, a session, a producer's key. A look-up without a result
 * counts against its address. Beyond the limit look-ups still run, one at a time. So an existing item is always found,
 * despite the failures of others at the address.
 */
import type { Config } from "../../config/config.ts";
import { addressKey } from "./address-key.ts";
import { NarrowGate } from "./narrow-gate.ts";
import { rateLimited } from "./rate-limited.ts";
import { BoundedLimiter } from "./rate-limiter.ts";

const PER_SECONDS = 60;

export interface FruitlessLookups {
  /**
   * Runs a look-up; an undefined result counts against the address.
   *
   * @throws SignetError RATE_LIMITED instead of returning undefined, once the address is beyond the limit
   */
  find<T>(address: string, find: () => Promise<T | undefined>): Promise<T | undefined>;
}

/** Creates the limit. It equals the limit of token requests per address and minute; 0 for no limit. */
export function createFruitlessLookups({
  tokenRatePerAddress: count,
}: Pick<Config, "tokenRatePerAddress">): FruitlessLookups {
  if (count === 0) {
    return { find: async (_address, find) => await find() };
  }
  const limiter = new BoundedLimiter({ count, perSeconds: PER_SECONDS });
  const gate = new NarrowGate("lookups");
  return {
    find: async (address, find) => {
      const key = addressKey(address);
      const { counted } = await limiter.count(key);
      const found = counted < count ? await find() : await gate.run(key, find);
      if (found === undefined) {
        const { within, waitMs } = await limiter.add(key);
        if (!within) {
          throw rateLimited("lookups", waitMs, "Too many requests from this address for unknown resources.");
        }
      }
      return found;
    },
  };
}
