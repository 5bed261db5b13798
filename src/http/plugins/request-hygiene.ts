/**
 * Rejects ambiguous input that Node and Fastify accept silently (security decisions A, I). They use the first of two
 * Authorization headers, drop headers beyond a limit, and parse queries leniently.
 */
import type { IncomingMessage } from "node:http";
import type { FastifyRequest } from "fastify";
import { SignetError } from "#domain/errors.ts";
import { tokenMisplaced } from "../bearer-errors.ts";
import { type Pairs, readPairs } from "../query-string.ts";
import type { SignetServer } from "../types.ts";
import { URI_MAX, uriTooLong } from "../uri-length.ts";
import { PROBES } from "./route-declarations.ts";

/** 100 headers: name and value are separate entries. */
const RAW_HEADERS_MAX = 200;
const SINGLE_HEADERS: ReadonlySet<string> = new Set([
  "authorization",
  "client-cert",
  "client-cert-chain",
  "content-encoding",
  "content-type",
  "host",
  "idempotency-key",
]);

/** Marks an invalid query. The parser runs before any hook and must not throw. */
const QUERY_FAULT = Symbol("query fault");

interface CheckedQuery {
  [name: string]: unknown;
  [QUERY_FAULT]?: string;
}

/** Matches `metadata[region]=eu`, the only filter with members (`deepObject` in OpenAPI). */
const METADATA_NAME = /^metadata\[([^[\]]+)\]$/;

/** Collects `metadata[…]` in one object with sorted members, since cursors are bound to the query. */
function withMetadata(pairs: Pairs): CheckedQuery {
  const query: CheckedQuery = Object.create(null) as CheckedQuery;
  const members: [string, string][] = [];
  for (const name in pairs) {
    const key = METADATA_NAME.exec(name)?.[1];
    if (key === undefined) {
      query[name] = pairs[name];
    } else {
      members.push([key, pairs[name] as string]);
    }
  }
  if (members.length === 0) {
    return query;
  }
  query["metadata"] = Object.fromEntries(members.toSorted(([left], [right]) => (left < right ? -1 : 1)));
  return query;
}

/** An unescaped sign before a time's offset. A form's `+` is a space, which no time has. */
const OFFSET_SIGN =
  /(\d{4}-\d{2}-\d{2}T\d{2}(?::|%3A)\d{2}(?::|%3A)\d{2}(?:\.\d{1,9})?)\+(?=\d{2}(?::|%3A)\d{2}(?:&|$))/gi;

/** Parses a query string strictly, for Fastify. */
export function parseQueryString(text: string): CheckedQuery {
  const pairs: Pairs | string = readPairs(text.includes("+") ? text.replace(OFFSET_SIGN, "$1%2B") : text);
  if (typeof pairs === "string") {
    return { [QUERY_FAULT]: pairs };
  }
  return text.includes("metadata") ? withMetadata(pairs) : pairs;
}

/** The error of a request that others may read in another way. The rest of its connection is not trusted. */
export function ambiguous(detail: string): SignetError {
  return new SignetError("INVALID_REQUEST", { detail, headers: { connection: "close" } });
}

/** A host and a port (RFC 3986 sections 3.2.2 and 3.2.3). */
const HOST = /^(?:\[[0-9a-f:.]+\]|[\w.~!$&'()*+,;=%-]*)(?::\d*)?$/i;

/** Rejects what other servers on the way may frame or route in another way (RFC 9112 sections 2.3, 3.2 and 6.1). */
function checkMessage({ headers, httpVersionMajor }: IncomingMessage): void {
  if (httpVersionMajor !== 1) {
    throw ambiguous("The version must be HTTP/1.1.");
  }
  if (headers.host !== undefined && !HOST.test(headers.host)) {
    throw ambiguous("Header host is not a host and a port.");
  }
  const coding = headers["transfer-encoding"];
  if (coding !== undefined && coding.toLowerCase() !== "chunked") {
    throw ambiguous("Transfer-Encoding must be chunked.");
  }
}

function checkHeaders({ rawHeaders, httpVersion }: IncomingMessage, route: string | undefined): void {
  if (rawHeaders.length > RAW_HEADERS_MAX) {
    throw new SignetError("HEADERS_TOO_LARGE", {
      detail: `A request may have at most ${RAW_HEADERS_MAX / 2} headers.`,
      headers: { connection: "close" },
    });
  }
  let seen = "";
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] ?? "").toLowerCase();
    if (!SINGLE_HEADERS.has(name)) {
      continue;
    }
    if (seen.includes(`${name};`)) {
      throw new SignetError("INVALID_REQUEST", { detail: `Header ${name} must occur only once.` });
    }
    seen += `${name};`;
  }
  // Load balancers probe with HTTP/1.0, which has no Host header.
  const isProbe = httpVersion === "1.0" && PROBES.has(route ?? "");
  if (!seen.includes("host;") && !isProbe) {
    throw new SignetError("INVALID_REQUEST", { detail: "Header host is missing." });
  }
}

function checkEncoding(request: FastifyRequest): void {
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    throw new SignetError("UNSUPPORTED_MEDIA_TYPE", { detail: "Content-Encoding is not supported." });
  }
}

function checkQuery(request: FastifyRequest): void {
  const fault = (request.query as CheckedQuery | null)?.[QUERY_FAULT];
  if (fault === "repeated" && request.routeOptions.config.proxied === true) {
    // The upstream may accept repeated parameters, but a token in the query is always rejected here.
    if (new URLSearchParams(request.url.slice(request.url.indexOf("?"))).has("access_token")) {
      throw tokenMisplaced();
    }
    return;
  }
  if (fault !== undefined) {
    throw new SignetError("INVALID_REQUEST", {
      detail: fault === "repeated" ? "A query parameter occurs twice." : "The query string is malformed.",
    });
  }
}

/** Rejects ambiguous requests before any other processing. */
export function installRequestHygiene(server: SignetServer): void {
  server.addHook("onRequest", (request, reply, done) => {
    reply.header("x-request-id", request.id);
    if (request.url.length > URI_MAX) {
      throw uriTooLong();
    }
    checkMessage(request.raw);
    checkHeaders(request.raw, request.routeOptions.url);
    if (request.routeOptions.config.proxied !== true) {
      checkEncoding(request);
    }
    checkQuery(request);
    done();
  });
}
