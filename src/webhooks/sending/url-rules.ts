/**
 * Rules for the text of a target URL. They run before `new URL`, because the WHATWG parser strips tabs and line feeds
 * and turns `\` into `/`. It also reads `0x7f.1`, `2130706433`, `127.1`, `%31%32%37.0.0.1` and full-width digits as
 * 127.0.0.1. Here, a host has exactly one valid spelling.
 */
import { isIP } from "node:net";
import { domainToASCII, domainToUnicode } from "node:url";
import { SignetError } from "#domain/errors.ts";

/** Targets allowed in addition to public https hosts. */
export interface UrlRules {
  readonly allowHttp: boolean;
  readonly allowLocalhost: boolean;
}

/** A target URL whose text follows the rules. */
export interface TargetUrl {
  readonly url: URL;
  /** Lower case; an IPv6 address without its brackets. */
  readonly hostname: string;
  readonly port: number;
  /** Whether the host is a literal address, which needs no resolver. */
  readonly literal: boolean;
}

const MAX_LENGTH = 2048;
const PRINTABLE = /^[\x21-\x7e]+$/;
/** Scheme, host, port, rest; without user information, percent-encoding in the host, or a fragment. */
const SHAPE =
  /^(?<scheme>https?):\/\/(?<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?<port>[1-9][0-9]{0,4}))?(?:[/?][^#\\]*)?$/i;
const HOSTNAME =
  /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*$/;
/** A label that parsers take for a part of an IPv4 address. */
const NUMBER = /^(?:[0-9]+|0x[0-9a-f]*)$/;
/** Names that only resolve in a private network (RFC 6761, 6762, 7686, 8375, and names used in clusters). */
const PRIVATE_SUFFIX = /(?:^|\.)(?:localhost|local|internal|home\.arpa|svc|onion)$/;
const DEFAULT_PORTS: Readonly<Record<string, number>> = { "https:": 443, "http:": 80 };
const LOW_PORTS: Readonly<Record<string, readonly number[]>> = { "https:": [443], "http:": [80, 443] };
/**
 * Ports from 1024 up that the Fetch standard blocks, because other protocols could misread a request as their own.
 */
const BAD_PORTS = new Set([
  1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697,
  10_080,
]);

/** Creates the 422 error of every rule. The detail says what to change and nothing about our network. */
export function forbiddenUrl(detail: string): SignetError {
  return new SignetError("TARGET_URL_FORBIDDEN", { detail });
}

function matchShape(raw: string, rules: UrlRules): { readonly host: string; readonly rawHost: string } {
  if (raw.length > MAX_LENGTH) {
    throw forbiddenUrl(`The URL is longer than ${MAX_LENGTH} characters.`);
  }
  if (!PRINTABLE.test(raw)) {
    throw forbiddenUrl(
      "The URL has spaces, control characters or characters beyond ASCII; write them percent-encoded, an international host name as punycode.",
    );
  }
  const scheme = rules.allowHttp ? /^https?:\/\//i : /^https:\/\//i;
  if (!scheme.test(raw)) {
    throw forbiddenUrl(`The URL does not start with https://${rules.allowHttp ? " or http://" : ""}.`);
  }
  const host = SHAPE.exec(raw)?.groups?.["host"];
  if (host === undefined) {
    throw forbiddenUrl(
      "The URL is not of the form https://host[:port][/path][?query]; user names, fragments and backslashes are not allowed.",
    );
  }
  return { host: host.toLowerCase().replace(/^\[|\]$/g, ""), rawHost: host.toLowerCase() };
}

/**
 * Whether a lower-case label that begins with `xn--` is the normal form of an international one (UTS 46): what a resolver
 * may know. Emoji, and joiners where a script needs them, belong to those.
 */
export function isValidALabel(label: string): boolean {
  const text = domainToUnicode(label);
  // Versions of Node return nothing for an invalid label, or the label itself.
  return text !== "" && text !== label && domainToASCII(text) === label;
}

function checkName(host: string, rules: UrlRules): void {
  if (rules.allowLocalhost && host === "localhost") {
    return;
  }
  if (!HOSTNAME.test(host)) {
    throw forbiddenUrl("The host is not a valid name. A trailing dot is not allowed.");
  }
  const labels = host.split(".");
  const invalid = labels.find((label) => label.startsWith("xn--") && !isValidALabel(label));
  if (invalid !== undefined) {
    throw forbiddenUrl(
      `The host's label ${invalid} is no international name (UTS 46): it does not decode, is not in its normal form, or has characters, joiners or directions that host names cannot have.`,
    );
  }
  if (NUMBER.test(labels.at(-1) ?? "")) {
    throw forbiddenUrl("The host ends in a number but is not an IP address.");
  }
  if (!host.includes(".") || PRIVATE_SUFFIX.test(host)) {
    throw forbiddenUrl("The host is not a public name.");
  }
}

function checkPort(url: URL): number {
  const port = url.port === "" ? (DEFAULT_PORTS[url.protocol] ?? 0) : Number(url.port);
  const low = LOW_PORTS[url.protocol] ?? [];
  if (BAD_PORTS.has(port) || (port < 1024 && !low.includes(port))) {
    throw forbiddenUrl(
      "The port is not allowed: use 443, or a port from 1024 up that is not reserved for another protocol.",
    );
  }
  return port;
}

/**
 * Checks the text of a target URL.
 *
 * @throws SignetError `TARGET_URL_FORBIDDEN`
 */
export function parseTargetUrl(raw: string, rules: UrlRules): TargetUrl {
  const { host, rawHost } = matchShape(raw, rules);
  const literal = isIP(host) !== 0;
  // Checked before parsing, because Node versions parse names differently.
  if (!literal) {
    checkName(host, rules);
  }
  if (!URL.canParse(raw)) {
    throw forbiddenUrl("The URL is not valid.");
  }
  const url = new URL(raw);
  // An alternative spelling of an address comes back changed. So does a host that the parser reads differently.
  if (url.hostname !== rawHost) {
    throw forbiddenUrl("The host is not in its normal form.");
  }
  // Newer parsers encode it, older ones do not.
  url.pathname = url.pathname.replaceAll("^", "%5E");
  return { url, hostname: host, port: checkPort(url), literal };
}
