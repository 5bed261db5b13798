import { isIPv6 } from "node:net";

/** Groups of an IPv6 network: a /64, which a provider gives to one customer, counts as one host. */
const NETWORK_GROUPS = 4;

/** Returns the rate-limit key of an address: IPv4 unchanged, also if mapped into IPv6; IPv6 by its /64. */
export function addressKey(address: string): string {
  const [plain = ""] = address.split("%");
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(plain)?.[1];
  if (mapped !== undefined || !isIPv6(plain)) {
    return mapped ?? plain;
  }
  const [head = "", tail] = plain.toLowerCase().split("::");
  const groups = (part: string): string[] => (part === "" ? [] : part.split(":"));
  const [before, after] = [groups(head), groups(tail ?? "")];
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const all = [...before, ...Array.from({ length: zeros }, () => "0"), ...after];
  return `${all
    .slice(0, NETWORK_GROUPS)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`;
}
