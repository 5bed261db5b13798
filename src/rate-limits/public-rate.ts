/** How often one address may ask for what everybody may read. */
import { addressKey } from "./address-key.ts";
import { rateLimited } from "./rate-limited.ts";
import { TokenBuckets } from "./token-buckets.ts";

/**
 * Counts a request of an address. @throws SignetError RATE_LIMITED
 *
 * @param perSecond requests, and as many at once; 0: no limit
 * @param monotonic milliseconds of a clock that nobody sets
 */
export function createPublicRate(perSecond: number, monotonic: () => number): (address: string) => void {
  const buckets = new TokenBuckets();
  return (address) => {
    const waitMs = perSecond === 0 ? 0 : buckets.take(addressKey(address), perSecond, monotonic());
    if (waitMs > 0) {
      throw rateLimited("public", waitMs, "This address asks for public documents too often.");
    }
  };
}
