/** Routes that somebody behind the edge answers: bodies stream through, headers are looked at one by one. */
import type { IncomingHttpHeaders } from "node:http";
import { fastifyHttpProxy, type FastifyHttpProxyOptions } from "@fastify/http-proxy";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { SignetServer } from "../http/types.ts";
import { SignetError } from "../domain/errors.ts";
import type { Logger } from "../observability/logger.ts";
import { metrics } from "../observability/metrics.ts";
import { rateLimited } from "../http/rate-limits/rate-limited.ts";
import type { Admitted } from "./admitted.ts";
import { PASSAGE, type UpstreamConnections } from "./dispatchers.ts";
import { forwardedAnswerHeaders, forwardedRequestHeaders } from "./headers.ts";
import { Passage } from "./passage.ts";
import { limitedBody } from "./request-checks.ts";
import type { Shares } from "./shares.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** When the request went on, on the monotonic clock; 0 before. */
    forwardedAt: number;
    /** The way of the answer. */
    passage: Passage | undefined;
    /** Whether the answer is an upstream's. */
    answeredByUpstream: boolean;
  }
}

export interface ProxiedRoutes {
  readonly methods: readonly string[];
  /** As the router has them. */
  readonly paths: readonly string[];
  readonly config: object;
  /** For metrics and the log. */
  readonly upstream: string;
  readonly origin: string;
  readonly connections: UpstreamConnections;
  readonly bodyLimit: number;
  /** How much of the upstream one caller may have. */
  readonly shares: Shares;
  /** Who the caller is: a tenant, or an address where nobody knows whose it is. */
  readonly callerOf: (request: FastifyRequest) => string;
  /** Where requests end when their token is revoked; absent where tokens are another's to look at. */
  readonly admitted?: Admitted | undefined;
  /** Headers of the edge's own for a request, and what of the caller's it keeps. */
  readonly headersFor: (request: FastifyRequest, kept: IncomingHttpHeaders) => IncomingHttpHeaders;
  /** The upstream makes its own request ids, which its problem documents name. */
  readonly ownRequestIds?: boolean;
}

/** Its types allow for HTTP/2 on this side, which this listener does not speak. */
type ReplyOptions = NonNullable<FastifyHttpProxyOptions["replyOptions"]>;

const RETRY_AFTER_SECONDS = "1";
const SHARE_RETRY_MS = 1_000;
/** The passage has an answer's headers; the library has nothing to copy. */
const NO_HEADERS: IncomingHttpHeaders = Object.freeze({});

/** The failure of an upstream, as its client sees it: whether it was there, late or broken is no business of theirs. */
function unavailable(error: Error): SignetError {
  return error.cause instanceof SignetError
    ? error.cause
    : new SignetError("UNAVAILABLE", {
        detail: "What answers this address cannot be reached at the moment, or does not answer.",
        headers: { "retry-after": RETRY_AFTER_SECONDS },
        cause: error.cause ?? error,
      });
}

/** Answers for an upstream that does not. */
function failUpstream(reply: FastifyReply, error: Error, log: Logger): void {
  const { request } = reply;
  request.log = log;
  request.answeredByUpstream = false;
  void reply.send(unavailable(error));
}

/** The proxy library warns of every failure; this one's failures are logged where they are answered. */
function quiet(log: Logger): Logger {
  return Object.create(log, { warn: { value: log.debug.bind(log) } }) as Logger;
}

/** What happens to a request on its way, and to its answer. */
function replyOptions(log: Logger, routes: ProxiedRoutes): ReplyOptions {
  const { upstream, headersFor, ownRequestIds = false } = routes;
  const latency = metrics.edgeUpstream.labels(upstream);
  return {
    rewriteRequestHeaders: (request: FastifyRequest, headers: IncomingHttpHeaders): IncomingHttpHeaders => {
      request.forwardedAt = performance.now();
      const kept = forwardedRequestHeaders(headers);
      if (request.method === "GET" || request.method === "HEAD") {
        delete kept["content-length"];
      }
      const own = headersFor(request, kept);
      own["x-request-id"] = request.id;
      (own as { [PASSAGE]?: Passage | undefined })[PASSAGE] = request.passage;
      return own;
    },
    rewriteHeaders: (headers: IncomingHttpHeaders, request?: FastifyRequest): IncomingHttpHeaders => {
      if (request?.passage !== undefined) {
        const kept = forwardedAnswerHeaders(headers);
        request.answeredByUpstream = true;
        latency.observe((performance.now() - request.forwardedAt) / 1_000);
        if (!ownRequestIds) {
          kept["x-request-id"] = request.id;
        }
        request.passage.headers = kept;
      }
      return NO_HEADERS;
    },
    onResponse: ({ answeredByUpstream, passage }: FastifyRequest, reply: FastifyReply): void => {
      // An answer whose status is none has been refused already.
      if (answeredByUpstream) {
        passage?.begin(reply.statusCode);
      }
    },
    onError: (reply: FastifyReply, { error }: { error: Error }): void => {
      failUpstream(reply, error, log);
    },
  } as unknown as ReplyOptions;
}

/**
 * Makes the passage of a request's answer; with its end the caller has a place again.
 *
 * @throws SignetError `RATE_LIMITED` when the caller has its share of the upstream under way
 */
function openPassage(
  request: FastifyRequest,
  reply: FastifyReply,
  log: Logger,
  routes: ProxiedRoutes,
): Passage {
  const { shares, callerOf, admitted } = routes;
  // What breaks off after its headers, before any of it went on to the client, can still be answered otherwise.
  const passage = new Passage(reply, (error) => failUpstream(reply, error, log));
  if (reply.raw.destroyed) {
    // The client has left already; nothing will be sent.
    return passage;
  }
  const caller = callerOf(request);
  if (!shares.take(caller)) {
    throw rateLimited("edge_share", SHARE_RETRY_MS, "Too many requests are under way at once.");
  }
  const place = admitted?.add(passage, request.identity);
  reply.raw.once("close", () => {
    shares.release(caller);
    if (place !== undefined) {
      admitted?.remove(place);
    }
  });
  return passage;
}

/** Registers routes of one upstream. */
export function registerProxiedRoutes(server: SignetServer, log: Logger, routes: ProxiedRoutes): void {
  const { origin, bodyLimit } = routes;
  const quietLog = quiet(log);

  void server.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (request, payload, done) => {
      try {
        done(null, limitedBody(request.raw, payload, bodyLimit));
      } catch (error) {
        done(error as Error);
      }
    });
    await scope.register(fastifyHttpProxy, {
      upstream: origin,
      routes: [...routes.paths],
      httpMethods: [...routes.methods],
      config: { ...routes.config, proxied: true },
      proxyPayloads: false,
      undici: routes.connections,
      http2: false,
      globalAgent: true,
      // A request that failed may have been carried out: only its sender knows whether it may be repeated.
      retryMethods: [],
      disableRequestLogging: true,
      internalRewriteLocationHeader: false,
      replyOptions: replyOptions(log, routes),
      handler: (request, reply, destination, options) => {
        request.passage = openPassage(request, reply, log, routes);
        request.log = quietLog;
        // Whoever returns the reply has Fastify wait for its end with listeners of its own.
        reply.from(destination, options);
      },
    });
  });
}
