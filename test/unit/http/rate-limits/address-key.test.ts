import { expect, test } from "vitest";
import { addressKey, networksOf } from "#http/rate-limits/address-key.ts";

test.each([
  ["192.0.2.7", "192.0.2.7"],
  ["::ffff:192.0.2.7", "192.0.2.7"],
  ["::ffff:c000:207", "192.0.2.7"],
  ["::FFFF:C000:0207", "192.0.2.7"],
  ["0:0:0:0:0:ffff:192.0.2.7", "192.0.2.7"],
  ["0000:0000:0000:0000:0000:ffff:c000:0207", "192.0.2.7"],
  ["::ffff:0:192.0.2.7", "0:0:0:0::/64"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:0DB8:0001:0002::9", "2001:db8:1:2::/64"],
  ["2001:db8::1", "2001:db8:0:0::/64"],
  ["2001:db8:0:0:ffff::1", "2001:db8:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["", ""],
])("%s counts as %s", (address, key) => {
  expect(addressKey(address)).toBe(key);
});

test("an address counts as a host, and IPv6 as a part of its /56 and /48, too", () => {
  expect(networksOf("::ffff:c000:207")).toEqual([{ key: "192.0.2.7", hosts: 1 }]);
  expect(networksOf("2001:db8:1:2::9")).toEqual([
    { key: "2001:db8:1:2::/64", hosts: 1 },
    { key: "2001:db8:1:0::/56", hosts: 4 },
    { key: "2001:db8:1::/48", hosts: 16 },
  ]);
  expect(networksOf("2001:db8:1:ff02::9", "cl_1")[1]?.key).toBe("2001:db8:1:ff00::/56 cl_1");
});
