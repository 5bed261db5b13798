import { addressWords, usualAddress } from "#runtime/address-set.ts";

/**
 * Networks of an IPv6 address by the length of their prefix, and how many times the limit of a host each may have. A
 * provider gives a /64 to one customer, and often a /56 or a /48, which contains 65,536 such networks. Providers also spread
 * several customers over a /48.
 */
const NETWORKS = [
  { bits: 64, hosts: 1 },
  { bits: 56, hosts: 4 },
  { bits: 48, hosts: 16 },
] as const;

/** A network to which a limit applies. */
export interface LimitedNetwork {
  readonly key: string;
  /** How many times the limit of one host it may have. */
  readonly hosts: number;
}

/** @param bits length of the prefix, more than 32 and at most 64 */
function networkOf([first = 0, second = 0]: readonly number[], bits: number): string {
  const kept = bits === 64 ? second : second & (-1 << (64 - bits));
  const groups = [first, kept].flatMap((word) => [word >>> 16, word & 0xffff]);
  const shown = groups.slice(0, Math.ceil(bits / 16)).map((group) => group.toString(16));
  return `${shown.join(":")}::/${bits}`;
}

/**
 * Returns the networks whose limits a request of an address counts against, the narrowest first.
 *
 * @param account what else the limit belongs to, for instance a client
 */
export function networksOf(address: string, account = ""): readonly [LimitedNetwork, ...LimitedNetwork[]] {
  const usual = usualAddress(address) ?? address;
  const words = addressWords(usual) ?? [];
  const named = (key: string): string => (account === "" ? key : `${key} ${account}`);
  if (words.length <= 1) {
    return [{ key: named(usual), hosts: 1 }];
  }
  const [host, ...others] = NETWORKS;
  const network = ({ bits, hosts }: (typeof NETWORKS)[number]): LimitedNetwork => ({
    key: named(networkOf(words, bits)),
    hosts,
  });
  return [network(host), ...others.map(network)];
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
