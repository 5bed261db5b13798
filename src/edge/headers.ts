/**
 * Keeps only end-to-end headers. The others belong to a single connection, or could be mistaken for statements of the
 * edge.
 */
import type { IncomingHttpHeaders } from "node:http";
import { elementsOf } from "#http/list-header.ts";
import { putBounded } from "#domain/bounded-map.ts";

/** Headers of a single connection (RFC 9110 section 7.6.1); those named in `Connection` are removed too. */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
/** Handled by this listener: Node itself answers with 100. */
const ANSWERED = "expect";
/** Well-known headers with claims about the client, which only the edge may make. */
const CLAIMS: ReadonlySet<string> = new Set([
  "cf-pseudo-ipv4",
  "coming-from",
  "via",
  "x-coming-from",
  "x-http-method",
  "x-http-method-override",
  "x-method-override",
  "x-request-id",
  "x-rewrite-url",
]);
/** Prefixes of headers in which proxies and CDNs make claims about the client or the request. */
const CLAIM_PREFIXES = [
  "akamai-",
  "client-cert",
  "cloudfront-",
  "fastly-",
  "fly-",
  "x-akamai-",
  "x-amzn-mtls-",
  "x-appengine-",
  "x-arr-",
  "x-azure-",
  "x-client-cert",
  "x-envoy-",
  "x-original-",
  "x-qrator-",
  "x-signet-",
  "x-ssl-",
  "x-sucuri-",
  "x-vercel-",
] as const;
/**
 * Matches headers with a client's address, such as `CF-Connecting-IP`, `True-Client-IP`, `X-Real-IP`,
 * `X-NF-Client-Connection-IP`, `Ali-CDN-Real-IP`, `WL-Proxy-Client-IP`, `X-ProxyUser-Ip`, `REMOTE_ADDR`, and all
 * forwarded headers.
 */
const ADDRESS =
  /forwarded|(?:client|connect(?:ing|ion)|real|remote|viewer|peer|src|source|origin(?:al|ating)|socket|external|user)-?(?:ip(?:v[46])?|addr(?:ess)?|host)(?:-|$)/;

type Headers = IncomingHttpHeaders;

function isClaim(name: string): boolean {
  return CLAIMS.has(name) || ADDRESS.test(name) || CLAIM_PREFIXES.some((prefix) => name.startsWith(prefix));
}

/** Returns the names in `Connection`, in lower case. */
function namedByConnection({ connection }: Headers): readonly string[] {
  return connection === undefined || connection.toLowerCase() === "keep-alive"
    ? []
    : elementsOf(connection.toLowerCase());
}

function isForwardedRequestHeader(name: string): boolean {
  // Treat underscores as hyphens, like servers that map headers to variables (CGI and its successors).
  return !CONNECTION_HEADERS.has(name) && name !== ANSWERED && !isClaim(name.replaceAll("_", "-"));
}

function isForwardedAnswerHeader(name: string): boolean {
  return !CONNECTION_HEADERS.has(name) && !name.startsWith("x-signet-");
}

/** Maximum number of cached names, since callers can invent names. */
const NAMES_MAX = 500;

/** Creates a filter by name that caches its decisions. */
function filter(isForwarded: (name: string) => boolean): (headers: Headers) => Headers {
  const known = new Map<string, boolean>();
  const decide = (name: string): boolean => {
    const decision = isForwarded(name);
    putBounded(known, name, decision, NAMES_MAX);
    return decision;
  };
  return (headers) => {
    const named = namedByConnection(headers);
    const kept: Headers = {};
    for (const name in headers) {
      if ((known.get(name) ?? decide(name)) && !named.includes(name)) {
        kept[name] = headers[name];
      }
    }
    return kept;
  };
}

/** Returns the headers of a request to forward. */
export const forwardedRequestHeaders: (headers: Headers) => Headers = filter(isForwardedRequestHeader);

/** Returns the headers of a response to forward. */
export const forwardedAnswerHeaders: (headers: Headers) => Headers = filter(isForwardedAnswerHeader);
