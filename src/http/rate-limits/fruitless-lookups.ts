/**
 * Look-ups in the database for whoever names something that may not be there: a sign-in link, a session, a producer's key.
 * What leads to nothing counts against the address that it came from. Beyond the limit what is there is still found, one
 * look-up at a time: the failures of others at an address refuse nobody.
 */
import type { Config } from "../../config/config.ts";
import { addressKey } from "./address-key.ts";
import { NarrowGate } from "./narrow-gate.ts";
import { rateLimited } from "./rate-limited.ts";
import { BoundedLimiter } from "./rate-limiter.ts";

const PER_SECONDS = 60;

export interface FruitlessLookups {
  /**
   * Looks something up; undefined counts against the address.
   *
   * @throws SignetError RATE_LIMITED instead of undefined when too many look-ups for the address led to nothing
   */
  find<T>(address: string, find: () => Promise<T | undefined>): Promise<T | undefined>;
}

/** As many in a minute as token requests of one address; 0: no limit. */
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
          throw rateLimited("lookups", waitMs, "Too many requests from this address name what is not there.");
        }
      }
      return found;
    },
  };
}
