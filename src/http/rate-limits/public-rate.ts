/** Rate limit of public documents per address. */
import { TokenBuckets } from "#domain/token-buckets.ts";
import { networksOf, takeFrom } from "./address-key.ts";
import { rateLimited } from "./rate-limited.ts";

/** Response bytes that count as one more request: a document of some megabytes costs more than a key set. */
const BYTES_OF_ONE = 262_144;

/** The rate limit of public requests. */
export class PublicRate {
  readonly #perSecond: number;
  readonly #monotonic: () => number;
  readonly #buckets = new TokenBuckets();

  /**
   * @param perSecond requests per second, and maximum burst; 0 for no limit
   * @param monotonic monotonic clock, in milliseconds
   */
  constructor(perSecond: number, monotonic: () => number) {
    this.#perSecond = perSecond;
    this.#monotonic = monotonic;
  }

  /** Counts a request of an address. @throws SignetError RATE_LIMITED */
  take(address: string): void {
    if (this.#perSecond === 0) {
      return;
    }
    const beyond = takeFrom(address, ({ key, hosts }) =>
      this.#buckets.take(key, this.#perSecond * hosts, this.#monotonic()),
    );
    if (beyond !== undefined) {
      const detail = "Too many requests for public documents from this address.";
      throw rateLimited("public", beyond.waitMs, detail);
    }
  }

  /** Charges a long response to the address, which may delay its next request. @param bytes size of the body */
  charge(address: string, bytes: number): void {
    for (const { key } of networksOf(address)) {
      this.#buckets.charge(key, Math.floor(bytes / BYTES_OF_ONE));
    }
  }
}
