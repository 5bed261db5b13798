/** Ranges of IP addresses in CIDR notation. */
import { BlockList, isIP } from "node:net";

/** Address ranges, one list per family: a joint `BlockList` would match `::ffff:127.0.0.1` against 127.0.0.0/8. */
export interface AddressSet {
  has(address: string): boolean;
}

/**
 * The set of these ranges.
 *
 * @throws TypeError for anything but an address with an optional prefix length
 */
export function addressSet(cidrs: readonly string[]): AddressSet {
  const lists = { 4: new BlockList(), 6: new BlockList() };
  for (const cidr of cidrs) {
    const [address = "", prefix, ...rest] = cidr.split("/");
    const family = isIP(address);
    const bits = family === 4 ? 32 : 128;
    const length = prefix === undefined ? bits : Number(prefix);
    const valid = rest.length === 0 && /^(?:\d{1,3})?$/.test(prefix ?? "") && prefix !== "" && length <= bits;
    if ((family !== 4 && family !== 6) || !valid) {
      throw new TypeError(`${cidr} is not a range of addresses`);
    }
    lists[family].addSubnet(address, length, family === 4 ? "ipv4" : "ipv6");
  }
  return {
    has(address) {
      const family = isIP(address);
      if (family === 4) {
        return lists[4].check(address, "ipv4");
      }
      return family === 6 && lists[6].check(address, "ipv6");
    },
  };
}
