import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { AddressPolicy } from "#webhooks/sending/address-policy.ts";
import { SignetError } from "#domain/errors.ts";
import vectors from "#test/support/vectors/targets.json" with { type: "json" };
import { cases } from "#test/support/properties.ts";

const ownListeners = [
  { host: "127.0.0.1", port: 8080 },
  { host: "0.0.0.0", port: 8443 },
  { host: "::", port: 8444 },
  { host: "localhost", port: 9464 },
  { host: "api.signet.example", port: 443 },
];
const production = new AddressPolicy({ allowedCidrs: [], allowHttp: false, ownListeners });
const development = new AddressPolicy({
  allowedCidrs: ["127.0.0.0/8", "::1"],
  allowHttp: true,
  ownListeners,
});

function refusal(policy: typeof production, raw: string): string | null {
  try {
    policy.checkUrl(raw);
    return null;
  } catch (error) {
    if (error instanceof SignetError && error.code === "TARGET_URL_FORBIDDEN") {
      return error.message;
    }
    throw error;
  }
}

const octets = fc.tuple(...[0, 1, 2, 3].map(() => fc.nat(255)));
const deniedIpv4 = fc.oneof(
  fc.constantFrom(...vectors.denied_addresses.filter((address) => /^(?:\d{1,3}\.){3}\d{1,3}$/.test(address))),
  octets.map((bytes) => bytes.join(".")).filter((address) => !production.allows(address)),
);

function hexPair(address: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = address.split(".").map(Number);
  return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
}

function invertedHexPair(address: string): string {
  return hexPair(
    address
      .split(".")
      .map((octet) => 255 - Number(octet))
      .join("."),
  );
}

describe("the address policy, by address", () => {
  it.each(vectors.denied_addresses)("rejects %j", (address) => {
    expect(production.allows(address)).toBe(false);
  });

  it.each(vectors.allowed_addresses)("allows %j", (address) => {
    expect(production.allows(address)).toBe(true);
  });

  it("rejects every IPv6 address that embeds a rejected IPv4 one, in either mode", () => {
    fc.assert(
      fc.property(deniedIpv4, (address) => {
        const hex = hexPair(address);
        const embeddings = [
          `::${address}`,
          `::${hex}`,
          `::ffff:${address}`,
          `::ffff:${hex}`,
          `0:0:0:0:0:FFFF:${hex}`,
          `::ffff:0:${hex}`,
          `64:ff9b::${address}`,
          `64:ff9b::${hex}`,
          `64:ff9b:1::${hex}`,
          `2002:${hex}::`,
          `2002:${hex}::1`,
          `2001:0:4136:e378:8000:63bf:${invertedHexPair(address)}`,
          `fe80::5efe:${hex}`,
        ];
        expect(embeddings.filter((embedding) => production.allows(embedding))).toEqual([]);
        // ::0.0.0.1 is also the loopback address, open in development.
        expect(
          embeddings.filter((embedding) => development.allows(embedding) && address !== "0.0.0.1"),
        ).toEqual([]);
      }),
    );
  });

  it("allows only global unicast of IPv6", () => {
    fc.assert(
      fc.property(fc.ipV6(), (address) => {
        fc.pre(production.allows(address));
        expect(address).toMatch(/^[23][0-9a-f]{3}:/i);
      }),
    );
  });

  it("opens only the loopback ranges in development", () => {
    for (const address of ["127.0.0.1", "127.8.9.10", "::1"]) {
      expect(development.allows(address)).toBe(true);
    }
    const others = vectors.denied_addresses.filter(
      (address) => !/^127\.|^::1$|^0:0:0:0:0:0:0:1$/.test(address) || address === "127.1",
    );
    expect(others.filter((address) => development.allows(address))).toEqual([]);
  });

  it("lets the operator deny more, even what was opened", () => {
    const policy = new AddressPolicy({
      allowedCidrs: ["10.0.0.0/8"],
      deniedCidrs: ["10.1.0.0/16", "8.8.8.8", "2606:4700::/32"],
      allowHttp: false,
      ownListeners,
    });
    expect(["10.0.0.1", "8.8.4.4"].map((address) => policy.allows(address))).toEqual([true, true]);
    expect(["10.1.0.1", "8.8.8.8", "2606:4700::1"].map((address) => policy.allows(address))).toEqual([
      false,
      false,
      false,
    ]);
  });

  it("never opens the addresses of cloud credentials, whatever the operator allows", () => {
    const policy = new AddressPolicy({
      allowedCidrs: ["0.0.0.0/0", "fc00::/7", "::1", "2000::/3"],
      allowHttp: true,
      ownListeners: [],
    });
    const closed = [
      "169.254.169.254",
      "168.63.129.16",
      "100.100.100.200",
      "192.0.0.192",
      "fd00:ec2::254",
      "0.0.0.0",
    ];
    expect(closed.filter((address) => policy.allows(address))).toEqual([]);
    expect(
      ["10.0.0.1", "192.168.1.1", "fd00::1", "::1"].filter((address) => !policy.allows(address)),
    ).toEqual([]);
  });

  it.each([
    "::/0",
    "0:0:0:0:0:0:0:1/3",
    "::ffff:0:0/96",
    "::ffff:10.0.0.0/104",
    "64:ff9b::/96",
    "fe80::/10",
    "ff00::/8",
    "f000::/4",
    "2000::/2",
  ])("does not open %s, whose addresses embed others or belong to no single host", (cidr) => {
    expect(() => new AddressPolicy({ allowedCidrs: [cidr], allowHttp: false, ownListeners })).toThrow(
      "cannot be allowed",
    );
  });

  it.each([
    "",
    "10.0.0.0/33",
    "::1/129",
    "10.0.0.0/",
    "10.0.0.0/8/8",
    "10.0.0/8",
    "10.0.0.0/-1",
    "10.0.0.0/0x8",
    "all",
  ])("does not start with the malformed range %j", (cidr) => {
    expect(() => new AddressPolicy({ allowedCidrs: [cidr], allowHttp: false, ownListeners })).toThrow(
      "is not an address range",
    );
  });
});

describe("the address policy, by URL", () => {
  it.each(vectors.denied_urls)("rejects %j", (url) => {
    expect(refusal(production, url)).not.toBeNull();
  });

  it.each(vectors.allowed_urls)("allows %j", (url) => {
    expect(production.checkUrl(url).href).toBe(new URL(url).href);
  });

  it("rejects every spelling of 127.0.0.1 in production, and all but the plain one in development", () => {
    const number = (value: number) =>
      fc.constantFrom(
        String(value),
        `0x${value.toString(16)}`,
        `0X${value.toString(16).toUpperCase()}`,
        `0${value.toString(8)}`,
        `0000${value.toString(8)}`,
        `%3${value % 10}`,
      );
    const spelling = fc.oneof(
      fc.tuple(number(127), number(0), number(0), number(1)).map((parts) => parts.join(".")),
      fc.tuple(number(127), number(0), number(1)).map((parts) => parts.join(".")),
      fc.tuple(number(127), number(1)).map((parts) => parts.join(".")),
      number(2_130_706_433),
      fc.constantFrom("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]", "[::127.0.0.1]"),
    );
    fc.assert(
      fc.property(
        spelling,
        fc.constantFrom("", "."),
        fc.constantFrom("", ":8443", ":5000"),
        (host, dot, port) => {
          const url = `https://${host}${dot}${port}/`;
          expect(refusal(production, url)).not.toBeNull();
          fc.pre(host + dot !== "127.0.0.1" || port === ":8443");
          expect(refusal(development, url)).not.toBeNull();
        },
      ),
    );
  });

  it("explains what to change, and reveals no addresses or listeners of ours", () => {
    const details = vectors.denied_urls.map((url) => refusal(production, url) ?? "");
    expect(
      details.filter((detail) => detail.length < 20 || /\d+\.\d+\.\d+|listen|127|denied|our/i.test(detail)),
    ).toEqual([]);
    expect(refusal(production, "http://hooks.example.com/")).toBe("The URL does not start with https://.");
    expect(refusal(development, "ftp://hooks.example.com/")).toBe(
      "The URL does not start with https:// or http://.",
    );
  });

  it("rejects a URL of 2,049 characters and accepts one of 2,048", () => {
    const base = "https://hooks.example.com/";
    expect(refusal(production, base.padEnd(2048, "x"))).toBeNull();
    expect(refusal(production, base.padEnd(2049, "x"))).toContain("2048");
  });

  it.each([
    "http://127.0.0.1:3000/hook",
    "http://127.0.0.2:3000/hook",
    "http://localhost:3000/hook",
    "http://LOCALHOST:3000/hook",
    "http://[::1]:3000/",
    "https://127.0.0.1:3000/",
    "http://hooks.example.com/",
    "http://hooks.example.com:80/",
  ])("allows %s in development", (url) => {
    expect(refusal(development, url)).toBeNull();
  });

  it("rejects in development everything else that production rejects", () => {
    const opened = /^https?:\/\/(?:127\.0\.0\.1|\[::1\]|localhost)\/$|^http:\/\/hooks\.example\.com\//i;
    const others = vectors.denied_urls.filter((url) => !opened.test(url));
    expect(others.length).toBeGreaterThan(100);
    expect(others.filter((url) => refusal(development, url) === null)).toEqual([]);
  });
});

describe("our own listeners", () => {
  it.each([
    "http://127.0.0.1:8080/",
    "http://localhost:8080/",
    "http://LocalHost:8080/",
    "http://[::1]:8080/",
    "https://127.0.0.1:8443/",
    "https://localhost:8443/",
    "https://127.9.9.9:8443/",
    "https://[::1]:8444/",
    "https://127.0.0.1:8444/",
    "http://127.0.0.1:9464/",
    "https://api.signet.example/",
    "https://API.signet.example:443/v1/events",
  ])("are not targets under the name %s", (url) => {
    expect(refusal(development, url)).toBe("The host and port are not an allowed target.");
  });

  it("are not targets behind a name that resolves to them", () => {
    const to = (address: string, port: number) =>
      development.allowsConnection({ hostname: "a.example", address, port });
    expect(to("127.0.0.1", 8080)).toBe(false);
    expect(to("::1", 8443)).toBe(false);
    expect(to("127.0.0.1", 3000)).toBe(true);
  });

  it("do not close the same port of other hosts", () => {
    expect(refusal(production, "https://hooks.example.com:8080/")).toBeNull();
    expect(refusal(production, "https://api.signet.example:8443/")).toBeNull();
  });
});

describe("localhost", () => {
  it("may resolve to loopback only", () => {
    const to = (address: string) =>
      development.allowsConnection({ hostname: "localhost", address, port: 3000 });
    expect(to("127.0.0.1")).toBe(true);
    expect(to("::1")).toBe(true);
    expect(to("93.184.216.34")).toBe(false);
  });

  it("stays rejected where the operator opened another private range", () => {
    const policy = new AddressPolicy({ allowedCidrs: ["10.0.0.0/8"], allowHttp: false, ownListeners });
    expect(refusal(policy, "https://localhost:3000/")).toBe("The host is not a public name.");
    expect(refusal(policy, "https://10.1.2.3:3000/")).toBeNull();
    expect(refusal(policy, "https://8.8.8.8/")).toBe("The host and port are not an allowed target.");
  });
});

/**
 * A second reading of IANA's special-purpose address registries (IPv4 of RFC 6890 and its updates, IPv6 likewise):
 * pairs of first and last address, compared as whole numbers. It shares no code with the policy.
 */
describe("against a model of the registries on whole numbers", () => {
  const ipv4Number = (text: string): bigint =>
    text.split(".").reduce((sum, octet) => sum * 256n + BigInt(octet), 0n);
  const SPECIAL_IPV4 = [
    ["0.0.0.0", "0.255.255.255"],
    ["10.0.0.0", "10.255.255.255"],
    ["100.64.0.0", "100.127.255.255"],
    ["127.0.0.0", "127.255.255.255"],
    ["168.63.129.16", "168.63.129.16"],
    ["169.254.0.0", "169.254.255.255"],
    ["172.16.0.0", "172.31.255.255"],
    ["192.0.0.0", "192.0.0.255"],
    ["192.0.2.0", "192.0.2.255"],
    ["192.31.196.0", "192.31.196.255"],
    ["192.52.193.0", "192.52.193.255"],
    ["192.88.99.0", "192.88.99.255"],
    ["192.168.0.0", "192.168.255.255"],
    ["192.175.48.0", "192.175.48.255"],
    ["198.18.0.0", "198.19.255.255"],
    ["198.51.100.0", "198.51.100.255"],
    ["203.0.113.0", "203.0.113.255"],
    ["224.0.0.0", "255.255.255.255"],
  ].map(([first = "", last = ""]) => ({ first: ipv4Number(first), last: ipv4Number(last) }));
  /** The first 64 bits: the registry of IPv6 is no finer inside global unicast. */
  const SPECIAL_IPV6 = [
    { first: 0x2001_0000_0000_0000n, last: 0x2001_01ff_ffff_ffffn },
    { first: 0x2001_0db8_0000_0000n, last: 0x2001_0db8_ffff_ffffn },
    { first: 0x2002_0000_0000_0000n, last: 0x2002_ffff_ffff_ffffn },
    { first: 0x2620_004f_8000_0000n, last: 0x2620_004f_8000_ffffn },
    { first: 0x3fff_0000_0000_0000n, last: 0x3fff_0fff_ffff_ffffn },
  ];
  const GLOBAL_UNICAST = { first: 0x2000_0000_0000_0000n, last: 0x3fff_ffff_ffff_ffffn };
  const within = (value: bigint, ranges: readonly { first: bigint; last: bigint }[]): boolean =>
    ranges.some(({ first, last }) => value >= first && value <= last);
  const dotted = (value: bigint): string =>
    [24n, 16n, 8n, 0n].map((shift) => String((value >> shift) & 255n)).join(".");
  const colons = (high: bigint, low: bigint): string =>
    [high, low]
      .flatMap((half) => [48n, 32n, 16n, 0n].map((shift) => ((half >> shift) & 0xffffn).toString(16)))
      .join(":");

  /** Any address, and those at the edges of ranges, where mistakes occur. */
  const near = (ranges: readonly { first: bigint; last: bigint }[], max: bigint) =>
    fc.oneof(
      fc.bigInt({ min: 0n, max }),
      fc
        .tuple(
          fc.constantFrom(...ranges.flatMap(({ first, last }) => [first, last])),
          fc.bigInt({ min: -2n, max: 2n }),
        )
        .map(([edge, by]) => (edge + by < 0n ? 0n : edge + by > max ? max : edge + by)),
    );

  it("allows the same IPv4 addresses", () => {
    fc.assert(
      fc.property(near(SPECIAL_IPV4, 0xffff_ffffn), (value) => {
        expect(production.allows(dotted(value)), dotted(value)).toBe(!within(value, SPECIAL_IPV4));
      }),
      cases(500),
    );
  });

  it("allows the same IPv6 addresses", () => {
    const max = 0xffff_ffff_ffff_ffffn;
    fc.assert(
      fc.property(near([...SPECIAL_IPV6, GLOBAL_UNICAST], max), fc.bigInt({ min: 0n, max }), (high, low) => {
        const address = colons(high, low);
        const isPublic = within(high, [GLOBAL_UNICAST]) && !within(high, SPECIAL_IPV6);
        expect(production.allows(address), address).toBe(isPublic);
      }),
      cases(500),
    );
  });

  it("accepts a literal host in a URL only as the model allows the operator's own range", () => {
    const policy = new AddressPolicy({ allowedCidrs: ["10.0.0.0/8"], allowHttp: false, ownListeners });
    fc.assert(
      fc.property(near(SPECIAL_IPV4, 0xffff_ffffn), (value) => {
        const url = `https://${dotted(value)}:5000/`;
        expect(refusal(policy, url) === null, url).toBe(value >> 24n === 10n);
      }),
      cases(300),
    );
  });
});
