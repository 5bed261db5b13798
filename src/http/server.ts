/** The HTTP server of all listeners, with the processing that applies to every request (security decisions I, J). */
import { lookup } from "node:dns/promises";
import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { type SerializerFactory, SerializerSelector } from "@fastify/fast-json-stringify-compiler";
import type { TypeBoxTypeProvider } from "@fastify/type-provider-typebox";
import { fastify, type FastifyBaseLogger, LogController } from "fastify";
import type { Clock } from "#domain/clock.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import { type ClientIdentification, createClientIdentification } from "./mutual-tls/client-identification.ts";
import { answerAll, endUnused, trackUnused } from "#runtime/http-server.ts";
import type { Logger } from "#observability/logger.ts";
import { limitPipelining } from "#runtime/pipelined-requests.ts";
import type { ListenAddress } from "#runtime/http-server.ts";
import { collectAllowedMethods } from "./plugins/allowed-methods.ts";
import { BODY_LIMIT, installBodyParsing } from "./plugins/body-parsing.ts";
import { installClientCertificates } from "./plugins/client-certificates.ts";
import { createClientErrorHandler } from "./plugins/client-errors.ts";
import { failRequest, installErrorHandling } from "./plugins/error-handling.ts";
import { type IdempotencyServices, installIdempotency } from "./plugins/idempotency.ts";
import { installPackedAnswers } from "./plugins/packed-answers.ts";
import { installRequestHygiene, parseQueryString } from "./plugins/request-hygiene.ts";
import { installRouteDeclarations, type RouteGuards } from "./plugins/route-declarations.ts";
import type { SignetServer } from "./types.ts";
import { URI_MAX } from "./uri-length.ts";
import { compileValidator } from "./validation.ts";

export interface ServerOptions {
  readonly baseUrl: string;
  readonly guards: RouteGuards;
  /** Identifies the client of a request; absent on a server without proxies and client certificates. */
  readonly clients?: ClientIdentification | undefined;
  /** Makes POSTs idempotent; absent on a server without POSTs of its own. */
  readonly idempotency?: IdempotencyServices | undefined;
  readonly clock: Clock;
  /** For the requests' ids, which are no secrets. */
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
  /** Returns the target to route. It must not throw, since only hooks can reject a request with a response. */
  readonly rewriteUrl?: ((request: IncomingMessage) => string) | undefined;
}

/**
 * Timeouts for receiving a request, in milliseconds, after which it gets 408. Measured: only all three together work.
 */
export const HTTP_TIMEOUTS = {
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  connectionsCheckingInterval: 1_000,
} as const;

/** Compiles how a response is written when the first one is: an api has hundreds, and its start should not wait. */
const buildSerializer: SerializerFactory = (schemas, options) => {
  const compile = SerializerSelector()(schemas, options);
  return (route) => {
    let write: ReturnType<typeof compile> | undefined;
    return (answer) => (write ??= compile(route))(answer);
  };
};

/** Creates a Fastify server without routes, with strict parsing and uniform errors. */
export function createServer(options: ServerOptions): SignetServer {
  const { baseUrl, clock, randomBytes } = options;
  const loggerInstance: FastifyBaseLogger = options.log;
  const newRequestId = (): string => newId("request", clock.now(), randomBytes);
  const clients = options.clients ?? createClientIdentification({ production: false });
  const refuse = createClientErrorHandler(baseUrl, newRequestId, () => server.allowedMethods);
  const server: SignetServer = fastify({
    loggerInstance,
    schemaController: { compilersFactory: { buildSerializer } },
    // The error handler logs one line per failure, with the request id. A child logger per request would cost more than
    // issuing a token.
    logController: new LogController({ disableRequestLogging: true }),
    childLoggerFactory: (parent) => parent,
    // Use the same id in the logs of the edge and the api.
    genReqId: (request) => clients.requestIdOf(request) ?? newRequestId(),
    http: { ...HTTP_TIMEOUTS, requireHostHeader: false },
    requestTimeout: HTTP_TIMEOUTS.requestTimeout,
    bodyLimit: BODY_LIMIT,
    // RFC 9110 section 9.1: a server with GET must support HEAD.
    exposeHeadRoutes: true,
    // Serve requests that arrive during shutdown, and close their connections.
    return503OnClosing: false,
    // Path parameters may be longer than the router's default of 100 characters.
    routerOptions: { querystringParser: parseQueryString, maxParamLength: URI_MAX },
    ...(options.rewriteUrl === undefined ? {} : { rewriteUrl: options.rewriteUrl }),
    clientErrorHandler: refuse,
    frameworkErrors: (error, _request, reply) => {
      failRequest(error, reply, baseUrl);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();
  answerAll(server.server, refuse);
  limitPipelining(server.server);
  endUnused(server.server);
  const closeUnused = trackUnused(server.server);
  server.addHook("preClose", (done) => {
    closeUnused();
    done();
  });
  server.decorateRequest("identity");
  server.decorateRequest("operator");
  server.decorateRequest("verifyBody");
  server.setValidatorCompiler(compileValidator);
  collectAllowedMethods(server);
  installRouteDeclarations(server, options.guards);
  if (options.idempotency !== undefined) {
    installIdempotency(server, options.idempotency);
  }
  installRequestHygiene(server);
  installClientCertificates(server, clients);
  installBodyParsing(server);
  installPackedAnswers(server);
  installErrorHandling(server, baseUrl);
  return server;
}

/**
 * Listens on the first address of the host and returns it. For `localhost` Fastify would open a second server on the
 * other address, without the limits and error responses of the first.
 */
export async function listenServer(
  server: SignetServer,
  { host, port }: ListenAddress,
): Promise<ListenAddress> {
  await server.listen({ host: (await lookup(host)).address, port });
  const bound = server.server.address() as AddressInfo;
  return { host: bound.address, port: bound.port };
}
