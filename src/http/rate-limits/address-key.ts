import { addressWords, usualAddress } from "../../runtime/address-set.ts";

/** 16-bit groups of an IPv6 network: a /64, which a provider gives to one customer, counts as one host. */
const HOST_GROUPS = 4;
/** A customer may also have a /48, with 65,536 such networks. */
const SITE_GROUPS = 3;
/** How many times the limit of a host a site may have. Providers also spread several customers over a /48. */
const SITE_HOSTS = 16;

/** A network to which a limit applies. */
export interface LimitedNetwork {
  readonly key: string;
  /** How many times the limit of one host it may have. */
  readonly hosts: number;
}

function networkOf(words: readonly number[], groups: number): string {
  const texts = words.flatMap((word) => [word >>> 16, word & 0xffff]).map((group) => group.toString(16));
  return `${texts.slice(0, groups).join(":")}::/${16 * groups}`;
}

/** Returns the networks whose limits a request of an address counts against, the narrowest first. */
export function networksOf(address: string): readonly [LimitedNetwork, ...LimitedNetwork[]] {
  const usual = usualAddress(address) ?? address;
  const words = addressWords(usual) ?? [];
  return words.length <= 1
    ? [{ key: usual, hosts: 1 }]
    : [
        { key: networkOf(words, HOST_GROUPS), hosts: 1 },
        { key: networkOf(words, SITE_GROUPS), hosts: SITE_HOSTS },
      ];
}

/**
 * Counts a request against the networks of an address, the narrowest first, until one is beyond its limit: then the wider
 * ones lose nothing.
 *
 * @param take counts it, and returns 0 or the milliseconds to wait
 * @returns the network that is beyond its limit, with the wait
 */
export function takeFrom(
  address: string,
  take: (network: LimitedNetwork) => number,
): { readonly key: string; readonly waitMs: number } | undefined {
  for (const network of networksOf(address)) {
    const waitMs = take(network);
    if (waitMs > 0) {
      return { key: network.key, waitMs };
    }
  }
  return undefined;
}

/** Returns the rate-limit key of an address as a host: IPv4, also if mapped into IPv6; IPv6 by its /64. */
export function addressKey(address: string): string {
  return networksOf(address)[0].key;
}
