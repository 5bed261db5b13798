/**
 * What of a message's headers is between its two ends: the rest belongs to one connection, or could be taken for the
 * edge's own word.
 */
import type { IncomingHttpHeaders } from "node:http";
import { putBounded } from "../domain/bounded-map.ts";

/** Of one connection (RFC 9110 section 7.6.1) and what describes it; those named in `Connection` go with them. */
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
/** Answered by this listener already: Node says 100 to whoever asks. */
const ANSWERED = "expect";
/** Claims about the client that only the edge may make, under the names that are in use. */
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
/** Of proxies and content networks: everything under these names is their word about the client or the request. */
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
 * What any of them calls a client's address: `CF-Connecting-IP`, `True-Client-IP`, `X-Real-IP`, `X-NF-Client-Connection-IP`,
 * `Ali-CDN-Real-IP`, `WL-Proxy-Client-IP`, `X-ProxyUser-Ip`, `REMOTE_ADDR`, and whatever has been forwarded.
 */
const ADDRESS =
  /forwarded|(?:client|connect(?:ing|ion)|real|remote|viewer|peer|src|source|origin(?:al|ating)|socket|external|user)-?(?:ip(?:v[46])?|addr(?:ess)?|host)(?:-|$)/;

type Headers = IncomingHttpHeaders;

function isClaim(name: string): boolean {
  return CLAIMS.has(name) || ADDRESS.test(name) || CLAIM_PREFIXES.some((prefix) => name.startsWith(prefix));
}

/** Names in `Connection`, lowercase. */
function namedByConnection({ connection }: Headers): readonly string[] {
  return connection === undefined || connection.toLowerCase() === "keep-alive"
    ? []
    : connection
        .toLowerCase()
        .split(",")
        .map((name) => name.trim());
}

function requestHeaderGoesOn(name: string): boolean {
  // An underscore is a hyphen to servers that make variables of headers (CGI and what came after it).
  return !CONNECTION_HEADERS.has(name) && name !== ANSWERED && !isClaim(name.replaceAll("_", "-"));
}

function answerHeaderGoesOn(name: string): boolean {
  return !CONNECTION_HEADERS.has(name) && !name.startsWith("x-signet-");
}

/** Headers have few names; callers who make some up have them forgotten again. */
const NAMES_MAX = 500;

/** Filters by name, and remembers what it found of each. */
function filter(goesOn: (name: string) => boolean): (headers: Headers) => Headers {
  const known = new Map<string, boolean>();
  const decide = (name: string): boolean => {
    const decision = goesOn(name);
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

/** The headers of a request that go on. */
export const forwardedRequestHeaders: (headers: Headers) => Headers = filter(requestHeaderGoesOn);

/** The headers of an answer that go on. */
export const forwardedAnswerHeaders: (headers: Headers) => Headers = filter(answerHeaderGoesOn);
