import { BlockList, isIP } from "node:net";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AddressSet, addressWords } from "#runtime/address-set.ts";
import { cases } from "#test/support/properties.ts";

const ipv4 = fc.ipV4();
/** Every spelling: with and without "::", with an IPv4 tail, in capitals. */
const ipv6 = fc.oneof(
  fc.ipV6(),
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 })
    .map((groups) => groups.map((group) => group.toString(16).toUpperCase()).join(":")),
  fc.constantFrom("::", "::1", "1::", "fe80::1", "::ffff:127.0.0.1", "64:ff9b::10.0.0.1", "2001:db8::"),
);

/** Returns Node's own reading of an address, by its URL parser. */
function normal(address: string): string {
  return new URL(`http://[${address}]/`).hostname;
}

function fromWords(words: readonly number[]): string {
  return words.flatMap((word) => [(word >>> 16).toString(16), (word & 0xffff).toString(16)]).join(":");
}

describe("a set of addresses", () => {
  it("reads an IPv6 address as the URL parser does, in any spelling", () => {
    fc.assert(
      fc.property(ipv6, (address) => {
        fc.pre(isIP(address) === 6);
        expect(normal(fromWords(addressWords(address) ?? []))).toBe(normal(address));
      }),
      cases(300),
    );
  });

  it("holds the same IPv4 addresses as Node's BlockList", () => {
    fc.assert(
      fc.property(ipv4, fc.integer({ min: 0, max: 32 }), fc.array(ipv4), (base, prefix, addresses) => {
        const model = new BlockList();
        model.addSubnet(base, prefix, "ipv4");
        const set = new AddressSet([`${base}/${prefix}`]);
        for (const address of [base, ...addresses]) {
          expect(set.has(address), `${address} in ${base}/${prefix}`).toBe(model.check(address, "ipv4"));
        }
      }),
      cases(200),
    );
  });

  it("holds the same IPv6 addresses as Node's BlockList", () => {
    fc.assert(
      fc.property(ipv6, fc.integer({ min: 0, max: 128 }), fc.array(ipv6), (base, prefix, addresses) => {
        fc.pre(isIP(base) === 6);
        const model = new BlockList();
        model.addSubnet(base, prefix, "ipv6");
        const set = new AddressSet([`${base}/${prefix}`]);
        for (const address of [base, ...addresses.filter((one) => isIP(one) === 6)]) {
          expect(set.has(address), `${address} in ${base}/${prefix}`).toBe(model.check(address, "ipv6"));
        }
      }),
      cases(200),
    );
  });

  it("ignores anything that is not an address, and never mistakes an IPv6 address for an IPv4 one", () => {
    const set = new AddressSet(["0.0.0.0/0"]);
    for (const text of ["", "1", "127.1", "0x7f.0.0.1", "::ffff:127.0.0.1", "::127.0.0.1", "::", "host"]) {
      expect(set.has(text), text).toBe(false);
    }
    expect(set.has("255.255.255.255")).toBe(true);
    expect(addressWords("fe80::1%eth0")).toEqual(addressWords("fe80::1"));
  });
});
