/** Routes that upstreams serve: bodies are streamed, headers are filtered. */
import type { IncomingHttpHeaders } from "node:http";
import { fastifyHttpProxy, type FastifyHttpProxyOptions } from "@fastify/http-proxy";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { SignetServer } from "#http/types.ts";
import { SignetError } from "#domain/errors.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { rateLimited } from "#http/rate-limits/rate-limited.ts";
import type { Admitted } from "./admitted.ts";
import { PASSAGE, type UpstreamConnections } from "./dispatchers.ts";
import { forwardedAnswerHeaders, forwardedRequestHeaders } from "./headers.ts";
import { Passage } from "./passage.ts";
import { limitedBody } from "./request-checks.ts";
import type { Shares } from "#domain/shares.ts";
import type { Timers } from "#domain/clock.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** When the request was forwarded, on the monotonic clock, in milliseconds; 0 before. */
    forwardedAt: number;
    /** Forwards the response. */
    passage: Passage | undefined;
    /** Whether the response comes from an upstream. */
    answeredByUpstream: boolean;
  }
}

export interface ProxiedRoutes {
  readonly methods: readonly string[];
  /** Paths in the router's syntax. */
  readonly paths: readonly string[];
  readonly config: object;
  /** Name of the upstream, for metrics and the log. */
  readonly upstream: string;
  readonly origin: string;
  readonly connections: UpstreamConnections;
  readonly bodyLimit: number;
  /** Limits the concurrent requests per caller. */
  readonly shares: Shares;
  /** Returns the caller: a tenant, or an address if the tenant is unknown. */
  readonly callerOf: (request: FastifyRequest) => string;
  /** Aborts requests when their token is revoked; absent if the upstream checks tokens itself. */
  readonly admitted?: Admitted | undefined;
  /** Adds the edge's own headers to those kept from the caller. */
  readonly headersFor: (request: FastifyRequest, kept: IncomingHttpHeaders) => IncomingHttpHeaders;
  readonly timers: Timers;
  /** The upstream creates its own request ids, which its problem documents contain. */
  readonly ownRequestIds?: boolean;
}

/** The library's types allow for HTTP/2, which this listener does not support. */
type ReplyOptions = NonNullable<FastifyHttpProxyOptions["replyOptions"]>;

const RETRY_AFTER_SECONDS = "1";
const SHARE_RETRY_MS = 1_000;
/** The passage has the response headers, so the library must copy none. */
const NO_HEADERS: IncomingHttpHeaders = Object.freeze({});

/** Returns the error for an upstream's failure, without revealing its cause to the client. */
function unavailable(error: Error): SignetError {
  return error.cause instanceof SignetError
    ? error.cause
    : new SignetError("UNAVAILABLE", {
        detail: "The upstream of this path is unreachable or does not respond.",
        headers: { "retry-after": RETRY_AFTER_SECONDS },
        cause: error.cause ?? error,
      });
}

/** Sends the error for a failed upstream. */
function failUpstream(reply: FastifyReply, error: Error, log: Logger): void {
  const { request } = reply;
  request.log = log;
  request.answeredByUpstream = false;
  void reply.send(unavailable(error));
}

/**
 * Turns warnings into debug messages. The proxy library warns of every failure, but the error handler logs them
 * already.
 */
function quiet(log: Logger): Logger {
  return Object.create(log, { warn: { value: log.debug.bind(log) } }) as Logger;
}

/** Makes the edge's span the parent of the upstream's. */
function continueTrace({ span }: FastifyRequest, headers: IncomingHttpHeaders): void {
  if (span === undefined) {
    return;
  }
  const [, traceId = ""] = span.traceparent.split("-");
  if (headers["traceparent"]?.includes(traceId) !== true) {
    // It belongs to the caller's trace, which could not be continued.
    delete headers["tracestate"];
  }
  headers["traceparent"] = span.traceparent;
}

/** Returns the hooks that rewrite a request and its response. */
function replyOptions(log: Logger, routes: ProxiedRoutes): ReplyOptions {
  const { upstream, headersFor, ownRequestIds = false, timers } = routes;
  const latency = metrics.edgeUpstream.labels(upstream);
  return {
    rewriteRequestHeaders: (request: FastifyRequest, headers: IncomingHttpHeaders): IncomingHttpHeaders => {
      request.forwardedAt = timers.monotonic();
      const kept = forwardedRequestHeaders(headers);
      if (request.method === "GET" || request.method === "HEAD") {
        delete kept["content-length"];
      }
      const own = headersFor(request, kept);
      own["x-request-id"] = request.id;
      continueTrace(request, own);
      (own as { [PASSAGE]?: Passage | undefined })[PASSAGE] = request.passage;
      return own;
    },
    rewriteHeaders: (headers: IncomingHttpHeaders, request?: FastifyRequest): IncomingHttpHeaders => {
      if (request?.passage !== undefined) {
        const kept = forwardedAnswerHeaders(headers);
        request.answeredByUpstream = true;
        latency.observe((timers.monotonic() - request.forwardedAt) / 1_000);
        if (!ownRequestIds) {
          kept["x-request-id"] = request.id;
        }
        request.passage.headers = kept;
      }
      return NO_HEADERS;
    },
    onResponse: ({ answeredByUpstream, passage }: FastifyRequest, reply: FastifyReply): void => {
      // A response with an invalid status has been rejected already.
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
 * Creates the passage of a request, which occupies a place of the caller's share until it ends.
 *
 * @throws SignetError `RATE_LIMITED` if the caller's share is used up
 */
function openPassage(
  request: FastifyRequest,
  reply: FastifyReply,
  log: Logger,
  routes: ProxiedRoutes,
): Passage {
  const { shares, callerOf, admitted } = routes;
  // If the upstream fails before anything was sent to the client, an error can still be sent.
  const passage = new Passage(reply, (error) => failUpstream(reply, error, log));
  if (reply.raw.destroyed) {
    // The client has disconnected already; nothing will be sent.
    return passage;
  }
  const caller = callerOf(request);
  if (!shares.take(caller)) {
    throw rateLimited("edge_share", SHARE_RETRY_MS, "Too many concurrent requests.");
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

/** Registers the routes of an upstream. */
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
      // A failed request may have been carried out, so only its sender can decide whether to retry it.
      retryMethods: [],
      disableRequestLogging: true,
      internalRewriteLocationHeader: false,
      replyOptions: replyOptions(log, routes),
      handler: (request, reply, destination, options) => {
        request.passage = openPassage(request, reply, log, routes);
        request.log = quietLog;
        // Do not return the reply: Fastify would add its own listeners to wait for its end.
        reply.from(destination, options);
      },
    });
  });
}
