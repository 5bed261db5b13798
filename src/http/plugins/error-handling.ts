/** Handles every failure of a request, in the error format of its path (security decisions J). */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { SignetError } from "#domain/errors.ts";
import { toSignetError } from "../framework-errors.ts";
import { OAUTH_HEADERS, OAUTH_PATHS, oauthErrorBody } from "../oauth-error.ts";
import { traceFields } from "#observability/tracer.ts";
import { requestPath, sendProblem } from "../problem.ts";
import type { SignetServer } from "../types.ts";
import { failureOfRequest, noRouteOf } from "./allowed-methods.ts";

/**
 * States of the process rather than failures of one request. Their start and end are logged elsewhere
 * (revocation/stale-report.ts, observability/clock-skew.ts).
 */
const LOGGED_ELSEWHERE: ReadonlySet<string> = new Set(["REVOCATION_STALE", "CLOCK_SKEWED"]);

/** Returns the tenant, if known. Despite its type, a request that failed early has no identity. */
function tenantOf({ identity }: { readonly identity?: FastifyRequest["identity"] }): string | undefined {
  return identity?.tenantId;
}

/** Logs failures of the service with their cause, and failures of the caller only at the debug level. */
function logFailure(request: FastifyRequest, error: SignetError): void {
  const fields = {
    request_id: request.id,
    ...traceFields(request.span),
    // Undefined, and so omitted, before the caller is known.
    tenant_id: tenantOf(request),
    method: request.method,
    path: requestPath(request),
    code: error.code,
    err: error.cause ?? error,
  };
  if (error.status >= 500 && !LOGGED_ELSEWHERE.has(error.code)) {
    request.log.error(fields, "request failed");
  } else {
    request.log.debug(fields, "request refused");
  }
}

/** Logs the failure and sends the error: in the OAuth format on OAuth endpoints, otherwise as a problem document. */
export function failRequest(thrown: unknown, reply: FastifyReply, baseUrl: string): FastifyReply {
  const error = toSignetError(thrown);
  const { request } = reply;
  logFailure(request, error);
  if (!OAUTH_PATHS.has(requestPath(request))) {
    return sendProblem(reply, error, baseUrl);
  }
  return reply
    .code(error.status)
    .headers(error.headers)
    .headers(OAUTH_HEADERS)
    .header("x-request-id", request.id)
    .serializer(JSON.stringify)
    .send(oauthErrorBody(error, request.id));
}

/** Installs the handlers for errors and for unknown paths. */
export function installErrorHandling(server: SignetServer, baseUrl: string): void {
  server.setErrorHandler((thrown, request, reply) =>
    failRequest(failureOfRequest(thrown, request), reply, baseUrl),
  );
  server.setNotFoundHandler((request, reply) => failRequest(noRouteOf(request), reply, baseUrl));
}
