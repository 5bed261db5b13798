/**
 * Ranges of IP addresses in CIDR notation. The sets work on numbers, because every delivery's connection checks several
 * of them, and `net.BlockList` creates an object per check.
 */
import { isIP } from "node:net";

/** An address as 32-bit numbers: one for IPv4, four for IPv6. */
export type AddressWords = readonly number[];

interface Range {
  readonly words: AddressWords;
  readonly masks: AddressWords;
}

const IPV6_WORDS = 4;
const GROUPS = 8;

function ipv4Word(address: string): number {
  let word = 0;
  let octet = 0;
  for (let index = 0; index < address.length; index += 1) {
    const code = address.charCodeAt(index);
    if (code === 46) {
      word = word * 256 + octet;
      octet = 0;
    } else {
      octet = octet * 10 + (code - 48);
    }
  }
  return (word * 256 + octet) >>> 0;
}

function hexDigit(code: number): number {
  // "0" is 48, "A" 65, "a" 97.
  return code < 65 ? code - 48 : (code | 32) - 87;
}

/** Parses groups of 16 bits; `::` stands for the missing ones. */
function ipv6Words(address: string): AddressWords {
  const groups: number[] = [];
  let gap = -1;
  let start = 0;
  while (start < address.length) {
    if (address.charCodeAt(start) === 58) {
      // A colon at the start of a group belongs to "::": it is the second one, or the first one of a leading "::".
      gap = groups.length;
      start += start === 0 ? 2 : 1;
      continue;
    }
    let end = start;
    let group = 0;
    while (end < address.length && address.charCodeAt(end) !== 58) {
      group = group * 16 + hexDigit(address.charCodeAt(end));
      end += 1;
    }
    if (address.indexOf(".", start) >= 0 && end === address.length) {
      const embedded = ipv4Word(address.slice(start));
      groups.push(embedded >>> 16, embedded & 0xffff);
    } else {
      groups.push(group);
    }
    start = end + 1;
  }
  if (gap >= 0) {
    groups.splice(gap, 0, ...Array.from({ length: GROUPS - groups.length }, () => 0));
  }
  return [0, 2, 4, 6].map((index) => (((groups[index] ?? 0) << 16) | (groups[index + 1] ?? 0)) >>> 0);
}

/** Parses an address accepted by `net.isIP`, ignoring its zone id. Returns null for anything else. */
export function addressWords(address: string): AddressWords | null {
  const family = isIP(address);
  if (family === 4) {
    return [ipv4Word(address)];
  }
  const zone = family === 6 ? address.indexOf("%") : 0;
  return family === 6 ? ipv6Words(zone < 0 ? address : address.slice(0, zone)) : null;
}

const MAPPED_WORD = 0xffff;

/**
 * Returns an address in its usual spelling: IPv4 mapped into IPv6 (`::ffff:0:0/96`, RFC 4291 section 2.5.5.2) as IPv4,
 * however it is spelled. Returns undefined for anything but an address.
 */
export function usualAddress(address: string): string | undefined {
  const words = addressWords(address);
  if (words === null) {
    return undefined;
  }
  const [first, second, third, last = 0] = words;
  const isMapped = words.length === IPV6_WORDS && first === 0 && second === 0 && third === MAPPED_WORD;
  return isMapped ? [24, 16, 8, 0].map((bits) => (last >>> bits) & 0xff).join(".") : address.toLowerCase();
}

function mask(bits: number): number {
  return bits <= 0 ? 0 : bits >= 32 ? 0xffffffff : ~(0xffffffff >>> bits) >>> 0;
}

/** @throws TypeError for anything but an address with an optional prefix length */
export function parseRange(cidr: string): Range {
  const [address = "", prefix, ...rest] = cidr.split("/");
  const words = address.includes("%") ? null : addressWords(address);
  const bits = words?.length === IPV6_WORDS ? 128 : 32;
  const length = prefix === undefined ? bits : Number(prefix);
  const valid = rest.length === 0 && /^(?:\d{1,3})?$/.test(prefix ?? "") && prefix !== "" && length <= bits;
  if (words === null || !valid) {
    throw new TypeError(`${cidr} is not an address range`);
  }
  const masks = words.map((_word, index) => mask(length - 32 * index));
  return { masks, words: words.map((word, index) => (word & (masks[index] ?? 0)) >>> 0) };
}

function matches({ words, masks }: Range, address: AddressWords): boolean {
  for (let index = 0; index < words.length; index += 1) {
    if (((address[index] ?? 0) & (masks[index] ?? 0)) >>> 0 !== words[index]) {
      return false;
    }
  }
  return true;
}

/** Address ranges; an IPv4 range never matches an IPv6 address that embeds one of its addresses. */
export class AddressSet {
  readonly #ipv4: readonly Range[];
  readonly #ipv6: readonly Range[];

  /** @throws TypeError for anything but an address with an optional prefix length */
  constructor(cidrs: readonly string[]) {
    const ranges = cidrs.map(parseRange);
    this.#ipv4 = ranges.filter(({ words }) => words.length === 1);
    this.#ipv6 = ranges.filter(({ words }) => words.length === IPV6_WORDS);
  }

  /** False for anything but an address. Ignores a zone id. */
  has(address: string): boolean {
    const words = addressWords(address);
    return words !== null && this.contains(words);
  }

  contains(address: AddressWords): boolean {
    const ranges = address.length === 1 ? this.#ipv4 : this.#ipv6;
    for (const range of ranges) {
      if (matches(range, address)) {
        return true;
      }
    }
    return false;
  }
}
