import { addressWords } from "../../runtime/address-set.ts";

/** 32-bit words of an IPv6 network: a /64, which a provider gives to one customer, counts as one host. */
const NETWORK_WORDS = 2;

/** Returns the rate-limit key of an address: IPv4 unchanged, also if mapped into IPv6; IPv6 by its /64. */
export function addressKey(address: string): string {
  const [plain = ""] = address.split("%");
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(plain)?.[1];
  const words = mapped === undefined ? addressWords(plain) : null;
  if (words === null || words.length <= NETWORK_WORDS) {
    return mapped ?? plain;
  }
  const groups = words.slice(0, NETWORK_WORDS).flatMap((word) => [word >>> 16, word & 0xffff]);
  return `${groups.map((group) => group.toString(16)).join(":")}::/64`;
}
