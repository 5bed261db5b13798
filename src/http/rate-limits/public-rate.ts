/** Rate limit of public documents per address. */
import { TokenBuckets } from "#domain/token-buckets.ts";
import { networksOf, takeFrom } from "./address-key.ts";
import { rateLimited } from "./rate-limited.ts";

/** Response bytes that count as one more request: a document of some megabytes costs more than a key set. */
const BYTES_OF_ONE = 262_144;

/** The rate limit of public requests. */
export interface PublicRate {
  /** Counts a request of an address. @throws SignetError RATE_LIMITED */
  readonly take: (address: string) => void;
  /** Charges a long response to the address, which may delay its next request. @param bytes size of the body */
  readonly charge: (address: string, bytes: number) => void;
}

/**
 * @param perSecond requests per second, and maximum burst; 0 for no limit
 * @param monotonic monotonic clock, in milliseconds
 */
export function createPublicRate(perSecond: number, monotonic: () => number): PublicRate {
  const buckets = new TokenBuckets();
  return {
    take(address) {
      const beyond =
        perSecond === 0
          ? undefined
          : takeFrom(address, ({ key, hosts }) => buckets.take(key, perSecond * hosts, monotonic()));
      if (beyond !== undefined) {
        throw rateLimited(
          "public",
          beyond.waitMs,
          "Too many requests for public documents from this address.",
        );
      }
    },
    charge(address, bytes) {
      for (const { key } of networksOf(address)) {
        buckets.charge(key, Math.floor(bytes / BYTES_OF_ONE));
      }
    },
  };
}
