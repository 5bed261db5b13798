/** The client's address behind proxies: the last hop that is not one of ours. */
import { isIP } from "node:net";
import type { IncomingHttpHeaders } from "node:http";
import type { AddressSet } from "../../runtime/address-set.ts";

/** Which header the proxies write: whoever reads one that they only pass on believes the client. */
export type ForwardedHeader = "x-forwarded-for" | "forwarded";

const FORWARDED_FOR = /(?:^|;)\s*for=(?:"([^"\\]*)"|([^;,"\s]+))/i;
const WITH_PORT = /^(?:\[([0-9a-fA-F:.]+)\](?::\d{1,5})?|(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5})$/;

/** An address as rate limits and ranges know it: IPv4 inside IPv6 is IPv4; nothing for what is no address. */
export function plainAddress(text: string): string | undefined {
  const match = WITH_PORT.exec(text);
  const address = (match?.[1] ?? match?.[2] ?? text).replace(/^::ffff:(?=\d+\.)/i, "");
  return isIP(address) === 0 ? undefined : address.toLowerCase();
}

function hops(headers: IncomingHttpHeaders, header: ForwardedHeader): readonly string[] {
  const value = headers[header];
  const elements = typeof value === "string" ? value.split(",").map((element) => element.trim()) : [];
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
 * The address of the client of a trusted proxy.
 *
 * @param peer the proxy's own address, which is the answer when the header says nothing that can be used
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
