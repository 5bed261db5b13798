/** Settings of requests to receivers: permitted addresses, connections, the proxy, and the trusted certificates. */
import { resolve } from "node:path";
import { cidrs, integer, oneOf, type Parser, setting } from "./setting.ts";

/** A forward proxy that opens tunnels (CONNECT). */
export interface OutboundProxy {
  /** Lower case; an IPv6 address has no brackets. */
  readonly hostname: string;
  readonly port: number;
  /** Whether the connection to the proxy itself is encrypted. */
  readonly secure: boolean;
  /** Value of `Proxy-Authorization`; never logged. */
  readonly authorization: string | null;
}

const FORM = "must be http://[user:password@]host[:port] or https://…";

function basic(username: string, password: string): string {
  let credentials: string;
  try {
    credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  } catch {
    throw new Error(FORM);
  }
  return `Basic ${Buffer.from(credentials).toString("base64")}`;
}

/** Parses the proxy's URL. Its error messages do not repeat the value, which may hold a password. */
export const outboundProxy: Parser<OutboundProxy> = (value) => {
  if (!URL.canParse(value)) {
    throw new Error(FORM);
  }
  const { protocol, hostname, port, pathname, search, hash, username, password } = new URL(value);
  const secure = protocol === "https:";
  if ((!secure && protocol !== "http:") || pathname !== "/" || search !== "" || hash !== "") {
    throw new Error(FORM);
  }
  return {
    hostname: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? (secure ? 443 : 80) : Number(port),
    secure,
    authorization: username === "" && password === "" ? null : basic(username, password),
  };
};

export const EGRESS_SETTINGS = {
  allowHttpTargets: setting(
    "SIGNET_ALLOW_HTTP_TARGETS",
    oneOf("true", "false"),
    undefined,
    "whether endpoints may have http:// URLs; `true` in development, forbidden in production",
  ),
  allowedTargetCidrs: setting(
    "SIGNET_ALLOWED_TARGET_CIDRS",
    cidrs,
    undefined,
    "private ranges in which endpoints are allowed, comma-separated; development: 127.0.0.0/8 and ::1/128",
  ),
  deniedTargetCidrs: setting(
    "SIGNET_DENIED_TARGET_CIDRS",
    cidrs,
    "",
    "additional ranges in which endpoints are forbidden, such as your own public addresses; they override the allowed ranges",
  ),
  ownAddressesShared: setting(
    "SIGNET_OWN_ADDRESSES_SHARED",
    oneOf("true", "false"),
    "false",
    "`true` if a CDN or an ingress also serves receivers at the addresses of SIGNET_PUBLIC_URL: then our own URLs are rejected by name only",
  ),
  targetCaFile: setting(
    "SIGNET_TARGET_CA_FILE",
    resolve,
    undefined,
    "additional root certificates (PEM) trusted for receivers' certificates; the worker reads it at start",
  ),
  outboundProxy: setting(
    "SIGNET_OUTBOUND_PROXY",
    outboundProxy,
    undefined,
    "forward proxy for all requests to receivers, `http(s)://[user:password@]host:port`; the proxy must then check addresses (docs/egress.md)",
  ),
  outboundProxyFile: setting(
    "SIGNET_OUTBOUND_PROXY_FILE",
    resolve,
    undefined,
    "file with its value, instead of SIGNET_OUTBOUND_PROXY",
  ),
  idleConnections: setting(
    "SIGNET_IDLE_CONNECTIONS",
    integer(16, 65_536),
    "4096",
    "connections to receivers that a worker keeps for reuse, each for 4 s or as long as the receiver announces, up to 30 s; 60 KiB of memory and a file descriptor each",
  ),
} as const;
