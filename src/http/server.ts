/** The HTTP server under both listeners: what every request meets, whatever it asks for (security decisions I, J). */
import { lookup } from "node:dns/promises";
import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { TypeBoxTypeProvider } from "@fastify/type-provider-typebox";
import { fastify, type FastifyBaseLogger, LogController } from "fastify";
import type { Clock } from "../domain/clock.ts";
import { newId, type RandomBytes } from "../domain/ids.ts";
import { type ClientIdentification, createClientIdentification } from "./mutual-tls/client-identification.ts";
import { answerAll } from "../runtime/http-server.ts";
import type { Logger } from "../observability/logger.ts";
import { limitPipelining } from "../runtime/pipelined-requests.ts";
import type { ListenAddress } from "../runtime/http-server.ts";
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
  /** Who stands behind a request; absent on a server that no proxy and no client certificate belongs to. */
  readonly clients?: ClientIdentification | undefined;
  /** How POSTs are done once; absent on a server that does nothing for anybody itself. */
  readonly idempotency?: IdempotencyServices | undefined;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
  /** Gives the request target that is routed, from the one that came. It must not throw: hooks refuse, with an answer. */
  readonly rewriteUrl?: ((request: IncomingMessage) => string) | undefined;
}

/** A request must have arrived within this time, or it is answered 408; measured: only the three together work. */
export const HTTP_TIMEOUTS = {
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  connectionsCheckingInterval: 1_000,
} as const;

/** A Fastify server without routes: strict in what it reads, uniform in how it fails. */
export function createServer(options: ServerOptions): SignetServer {
  const { baseUrl, clock, randomBytes } = options;
  const loggerInstance: FastifyBaseLogger = options.log;
  const newRequestId = (): string => newId("request", clock.now(), randomBytes);
  const clients = options.clients ?? createClientIdentification({ production: false, clock });
  const refuse = createClientErrorHandler(baseUrl, newRequestId);
  const server: SignetServer = fastify({
    loggerInstance,
    // One line per failure is written by the error handler, with the request id; a child logger for each request
    // would cost more than the token it serves.
    logController: new LogController({ disableRequestLogging: true }),
    childLoggerFactory: (parent) => parent,
    // One id in the logs of the edge and of the api.
    genReqId: (request) => clients.requestIdOf(request) ?? newRequestId(),
    http: { ...HTTP_TIMEOUTS, requireHostHeader: false },
    requestTimeout: HTTP_TIMEOUTS.requestTimeout,
    bodyLimit: BODY_LIMIT,
    // RFC 9110 section 9.1: HEAD is for every server that has GET.
    exposeHeadRoutes: true,
    // Requests that arrive while the process stops are served, and their connections closed.
    return503OnClosing: false,
    // The names in our paths, and those of a data plane, are longer than the 100 characters that the router takes.
    routerOptions: { querystringParser: parseQueryString, maxParamLength: URI_MAX },
    ...(options.rewriteUrl === undefined ? {} : { rewriteUrl: options.rewriteUrl }),
    clientErrorHandler: refuse,
    frameworkErrors: (error, _request, reply) => {
      failRequest(error, reply, baseUrl);
    },
  }).withTypeProvider<TypeBoxTypeProvider>();
  answerAll(server.server, refuse);
  limitPipelining(server.server);
  server.decorateRequest("identity");
  server.decorateRequest("operator");
  server.decorateRequest("verifyBody");
  server.setValidatorCompiler(compileValidator);
  const allowedMethods = collectAllowedMethods(server);
  installRouteDeclarations(server, options.guards);
  if (options.idempotency !== undefined) {
    installIdempotency(server, options.idempotency);
  }
  installRequestHygiene(server);
  installClientCertificates(server, clients);
  installBodyParsing(server);
  installPackedAnswers(server);
  installErrorHandling(server, baseUrl, allowedMethods);
  return server;
}

/**
 * Listens at the first address of the host and resolves with it. For `localhost` Fastify would open a second server on
 * the other address, without the limits and the error answers of the first.
 */
export async function listenServer(
  server: SignetServer,
  { host, port }: ListenAddress,
): Promise<ListenAddress> {
  await server.listen({ host: (await lookup(host)).address, port });
  const bound = server.server.address() as AddressInfo;
  return { host: bound.address, port: bound.port };
}
