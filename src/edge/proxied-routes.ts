/** Routes that somebody behind the edge answers: bodies stream through, headers are looked at one by one. */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { fastifyHttpProxy, type FastifyHttpProxyOptions } from "@fastify/http-proxy";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { SignetServer } from "../api/types.ts";
import { SignetError } from "../errors.ts";
import type { Logger } from "../observability/logger.ts";
import { metrics } from "../observability/metrics.ts";
import { ANSWER, type UpstreamConnections } from "./dispatchers.ts";
import { forwardedAnswerHeaders, forwardedRequestHeaders } from "./headers.ts";
import { limitedBody } from "./request-checks.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** When the request went on, on the monotonic clock; 0 before. */
    forwardedAt: number;
    /** Where the answer goes. */
    answer: ServerResponse | undefined;
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
  /** Headers of the edge's own for a request, and what of the caller's it keeps. */
  readonly headersFor: (request: FastifyRequest, kept: IncomingHttpHeaders) => IncomingHttpHeaders;
  /** The upstream makes its own request ids, which its problem documents name. */
  readonly ownRequestIds?: boolean;
}

/** Its types allow for HTTP/2 on this side, which this listener does not speak. */
type ReplyOptions = NonNullable<FastifyHttpProxyOptions["replyOptions"]>;

const RETRY_AFTER_SECONDS = "1";

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

/** Takes back what a reply has of an answer that will not come. */
function forgetAnswer(reply: FastifyReply): void {
  for (const name of Object.keys(reply.getHeaders())) {
    reply.removeHeader(name);
    reply.raw.removeHeader(name);
  }
  reply.request.answeredByUpstream = false;
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
      return Object.assign(own, { [ANSWER]: request.answer });
    },
    rewriteHeaders: (headers: IncomingHttpHeaders, request?: FastifyRequest): IncomingHttpHeaders => {
      const kept = forwardedAnswerHeaders(headers);
      if (request !== undefined) {
        request.answeredByUpstream = true;
        latency.observe((performance.now() - request.forwardedAt) / 1_000);
        if (!ownRequestIds) {
          kept["x-request-id"] = request.id;
        }
      }
      return kept;
    },
    onResponse: (request: FastifyRequest, reply: FastifyReply, { stream }: { stream: Readable }): void => {
      if (!request.answeredByUpstream) {
        // Its status was none, which is answered already.
        stream.once("error", () => undefined).destroy();
        return;
      }
      void reply.send(stream);
      // Headers wait for the first piece of the body, to go with it. One that is not there yet may be long in coming.
      setImmediate(() => {
        if (!reply.raw.headersSent && !reply.raw.destroyed) {
          reply.raw.flushHeaders();
        }
      });
    },
    onError: (reply: FastifyReply, { error }: { error: Error }): void => {
      if (reply.raw.destroyed) {
        // The client has gone; there is nobody to answer.
        reply.hijack();
        return;
      }
      reply.request.log = log;
      forgetAnswer(reply);
      void reply.send(unavailable(error));
    },
  } as unknown as ReplyOptions;
}

/** Registers routes of one upstream. */
export function registerProxiedRoutes(server: SignetServer, log: Logger, routes: ProxiedRoutes): void {
  const { origin, bodyLimit } = routes;
  const quietLog = quiet(log);

  void server.register(async (scope) => {
    scope.setErrorHandler((thrown: Error, request, reply) => {
      if (!request.answeredByUpstream) {
        throw thrown;
      }
      // It broke off after its headers, before any of it went on to the client: another answer is still possible.
      request.log = log;
      forgetAnswer(reply);
      throw unavailable(thrown);
    });
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
        request.answer = reply.raw;
        request.log = quietLog;
        return reply.from(destination, options);
      },
    });
  });
}
