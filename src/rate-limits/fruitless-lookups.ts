/**
 * Look-ups in the database for whoever names something that may not be there: a sign-in link, a session, a producer's key.
 * Nothing else is asked of them, so what leads to nothing counts against the address that it came from, and an address
 * that has had its fill is not looked up for.
 */
import type { Config } from "../config.ts";
import { addressKey } from "./address-key.ts";
import { rateLimited } from "./rate-limited.ts";
import { BoundedLimiter } from "./rate-limiter.ts";

const PER_SECONDS = 60;

export interface FruitlessLookups {
  /** @throws SignetError RATE_LIMITED when too many look-ups for the address led to nothing */
  admit(address: string): Promise<void>;
  /** Another one led to nothing. */
  note(address: string): Promise<void>;
}

/** As many in a minute as token requests of one address; 0: no limit. */
export function createFruitlessLookups({
  tokenRatePerAddress: count,
}: Pick<Config, "tokenRatePerAddress">): FruitlessLookups {
  if (count === 0) {
    return { admit: async () => undefined, note: async () => undefined };
  }
  const limiter = new BoundedLimiter({ count, perSeconds: PER_SECONDS });
  return {
    admit: async (address) => {
      const { counted, waitMs } = await limiter.count(addressKey(address));
      if (counted >= count) {
        throw rateLimited("lookups", waitMs, "Too many requests from this address name what is not there.");
      }
    },
    note: async (address) => void (await limiter.add(addressKey(address))),
  };
}
