/** Settings of what goes out to receivers: which addresses, through which proxy, on whose certificates. */
import { resolve } from "node:path";
import { cidrs, oneOf, type Parser, setting } from "./setting.ts";

/** A forward proxy that is asked for tunnels (CONNECT). */
export interface OutboundProxy {
  /** Lower case; an IPv6 address without its brackets. */
  readonly hostname: string;
  readonly port: number;
  /** Whether the way to the proxy itself is encrypted. */
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

/** Messages do not repeat the value, which may hold a password. */
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
    "endpoints with http:// URLs; `true` in development, refused in production",
  ),
  allowedTargetCidrs: setting(
    "SIGNET_ALLOWED_TARGET_CIDRS",
    cidrs,
    undefined,
    "private ranges that endpoints may live in, comma-separated; development: 127.0.0.0/8 and ::1/128",
  ),
  deniedTargetCidrs: setting(
    "SIGNET_DENIED_TARGET_CIDRS",
    cidrs,
    "",
    "further ranges that endpoints must not live in, for instance your own public addresses; they win over those allowed",
  ),
  ownAddressesShared: setting(
    "SIGNET_OWN_ADDRESSES_SHARED",
    oneOf("true", "false"),
    "false",
    "`true` where a CDN or an ingress serves receivers at the addresses of SIGNET_PUBLIC_URL: then our own URLs are refused by name only",
  ),
  targetCaFile: setting(
    "SIGNET_TARGET_CA_FILE",
    resolve,
    undefined,
    "root certificates (PEM) that receivers' certificates may come from, beside the public ones; the worker reads it at start",
  ),
  outboundProxy: setting(
    "SIGNET_OUTBOUND_PROXY",
    outboundProxy,
    undefined,
    "forward proxy for everything that goes to receivers, `http(s)://[user:password@]host:port`; then addresses are the proxy's to check (docs/egress.md)",
  ),
  outboundProxyFile: setting(
    "SIGNET_OUTBOUND_PROXY_FILE",
    resolve,
    undefined,
    "file that holds it, instead of SIGNET_OUTBOUND_PROXY",
  ),
} as const;
