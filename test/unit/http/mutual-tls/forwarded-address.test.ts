import { expect, test } from "vitest";
import { AddressSet } from "#runtime/address-set.ts";
import { forwardedAddress, plainAddress } from "#http/mutual-tls/forwarded-address.ts";

const trusted = new AddressSet(["10.0.0.0/8", "2001:db8::/32"]);
const PEER = "10.0.0.1";

test.each([
  ["nothing", undefined, PEER],
  ["a client", "198.51.100.7", "198.51.100.7"],
  ["a client that added a hop of its own", "203.0.113.9, 198.51.100.7", "198.51.100.7"],
  ["a client behind two of our proxies", "198.51.100.7, 10.0.0.2", "198.51.100.7"],
  ["our own proxies only", "10.0.0.3, 10.0.0.2", "10.0.0.3"],
  ["an invalid address", "unknown", PEER],
  ["an invalid address before one of our proxies", "_hidden, 10.0.0.2", "10.0.0.2"],
  ["an address with a port", "198.51.100.7:4711", "198.51.100.7"],
  ["IPv6", "2001:DB8::1, 2003::1", "2003::1"],
  ["IPv6 with a port", "[2003::1]:4711", "2003::1"],
  ["IPv4 inside IPv6", "::ffff:198.51.100.7", "198.51.100.7"],
  ["IPv4 inside IPv6 in hexadecimal", "::ffff:c633:6407", "198.51.100.7"],
  ["IPv4 inside IPv6 in full, with a port", "[0:0:0:0:0:ffff:198.51.100.7]:4711", "198.51.100.7"],
  ["one of our proxies in hexadecimal", "198.51.100.7, ::ffff:a00:2", "198.51.100.7"],
  ["an empty header", "", PEER],
])("X-Forwarded-For with %s", (_name, value, address) => {
  const headers = value === undefined ? {} : { "x-forwarded-for": value };
  expect(forwardedAddress(headers, PEER, { header: "x-forwarded-for", trusted })).toBe(address);
});

test.each([
  ["for=198.51.100.7", "198.51.100.7"],
  ['For="[2003::1]:4711";proto=https;by=10.0.0.1', "2003::1"],
  ["for=203.0.113.9, for=198.51.100.7;proto=https, for=10.0.0.2", "198.51.100.7"],
  ["proto=https", PEER],
  ["for=_hidden", PEER],
  ["for=unknown, for=10.0.0.2", "10.0.0.2"],
])("Forwarded: %s", (value, address) => {
  expect(forwardedAddress({ forwarded: value }, PEER, { header: "forwarded", trusted })).toBe(address);
});

test("a header that the proxies do not write is ignored", () => {
  const headers = { "x-forwarded-for": "198.51.100.7", forwarded: "for=203.0.113.9" };
  expect(forwardedAddress(headers, PEER, { header: "x-forwarded-for", trusted })).toBe("198.51.100.7");
  expect(forwardedAddress(headers, PEER, { header: "forwarded", trusted })).toBe("203.0.113.9");
});

test("a connection's own address is used, and IPv4 in each of its spellings", () => {
  expect(plainAddress("::ffff:127.0.0.1")).toBe("127.0.0.1");
  expect(plainAddress("::1")).toBe("::1");
  expect(plainAddress("")).toBeUndefined();
});
