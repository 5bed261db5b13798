/** The client's address behind proxies: the last hop that is not a trusted proxy. */
import type { IncomingHttpHeaders } from "node:http";
import { elementsOf } from "../list-header.ts";
import { type AddressSet, usualAddress } from "#runtime/address-set.ts";

/** The header that the proxies write. A header that they only pass on is under the client's control. */
export type ForwardedHeader = "x-forwarded-for" | "forwarded";

const FORWARDED_FOR = /(?:^|;)\s*for=(?:"([^"\\]*)"|([^;,"\s]+))/i;
const WITH_PORT = /^(?:\[([0-9a-fA-F:.]+)\](?::\d{1,5})?|(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5})$/;

/** Normalizes an address, mapping IPv4 inside IPv6 to IPv4. Returns undefined if the text is not an address. */
export function plainAddress(text: string): string | undefined {
  const match = WITH_PORT.exec(text);
  return usualAddress(match?.[1] ?? match?.[2] ?? text);
}

function hops(headers: IncomingHttpHeaders, header: ForwardedHeader): readonly string[] {
  const value = headers[header];
  const elements = typeof value === "string" ? elementsOf(value) : [];
  if (header === "x-forwarded-for") {
    return elements;
  }
  return elements.map((element) => {
    const [, quoted, token] = FORWARDED_FOR.exec(element) ?? [];
    return quoted ?? token ?? "";
  });
}

export interface ForwardedOptions {
  readonly header: ForwardedHeader;
  readonly trusted: AddressSet;
}

/**
 * Returns the address of the client of a trusted proxy.
 *
 * @param peer the proxy's own address, returned if the header is unusable
 */
export function forwardedAddress(
  headers: IncomingHttpHeaders,
  peer: string,
  options: ForwardedOptions,
): string {
  let nearest = peer;
  for (const hop of hops(headers, options.header).toReversed()) {
    const address = plainAddress(hop);
    if (address === undefined) {
      return nearest;
    }
    if (!options.trusted.has(address)) {
      return address;
    }
    nearest = address;
  }
  return nearest;
}
