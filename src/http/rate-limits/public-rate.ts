/** How often one address may ask for what everybody may read. */
import { addressKey } from "./address-key.ts";
import { rateLimited } from "./rate-limited.ts";
import { TokenBuckets } from "./token-buckets.ts";

/** Bytes of an answer that count as one request: a document of some megabytes costs more than a key set. */
const BYTES_OF_ONE = 262_144;

/** The rate of public requests by address. */
export interface PublicRate {
  /** Counts a request of an address. @throws SignetError RATE_LIMITED */
  readonly take: (address: string) => void;
  /** Counts a long answer: the address may owe it, and its next request waits. @param bytes of the body */
  readonly charge: (address: string, bytes: number) => void;
}

/**
 * @param perSecond requests, and as many at once; 0: no limit
 * @param monotonic milliseconds of a clock that nobody sets
 */
export function createPublicRate(perSecond: number, monotonic: () => number): PublicRate {
  const buckets = new TokenBuckets();
  return {
    take(address) {
      const waitMs = perSecond === 0 ? 0 : buckets.take(addressKey(address), perSecond, monotonic());
      if (waitMs > 0) {
        throw rateLimited("public", waitMs, "This address asks for public documents too often.");
      }
    },
    charge(address, bytes) {
      buckets.charge(addressKey(address), Math.floor(bytes / BYTES_OF_ONE));
    },
  };
}
