/** Every way in which a request can fail, answered in the form that the address has (security decisions J). */
import type { FastifyReply, FastifyRequest } from "fastify";
import { nothingHere, SignetError } from "../../domain/errors.ts";
import { toSignetError } from "../framework-errors.ts";
import { sendError } from "../oauth-errors.ts";
import { requestPath } from "../problem.ts";
import type { SignetServer } from "../types.ts";
import type { AllowedMethods } from "./allowed-methods.ts";

/**
 * States and no failures of one request: their beginnings and ends are in the log (revocation/stale-report.ts,
 * observability/clock-skew.ts).
 */
const TOLD_ELSEWHERE: ReadonlySet<string> = new Set(["REVOCATION_STALE", "CLOCK_SKEWED"]);

/** A request that failed early has no identity, whatever its type says. */
function tenantOf({ identity }: { readonly identity?: FastifyRequest["identity"] }): string | undefined {
  return identity?.tenantId;
}

/** Writes failures of ours to the log, with their cause; failures of the caller only when asked to. */
function logFailure(request: FastifyRequest, error: SignetError): void {
  const fields = {
    request_id: request.id,
    // Undefined, and left out, before the caller is known.
    tenant_id: tenantOf(request),
    method: request.method,
    path: requestPath(request),
    code: error.code,
    err: error.cause ?? error,
  };
  if (error.status >= 500 && !TOLD_ELSEWHERE.has(error.code)) {
    request.log.error(fields, "request failed");
  } else {
    request.log.debug(fields, "request refused");
  }
}

/** The error for an address that does not exist, or does not have this method. */
function noSuchRoute(request: FastifyRequest, allowed: AllowedMethods): SignetError {
  const methods = allowed.of(requestPath(request));
  if (methods.length === 0) {
    return nothingHere();
  }
  return new SignetError("METHOD_NOT_ALLOWED", {
    detail: `This address takes ${methods.join(", ")}.`,
    headers: { allow: methods.join(", ") },
  });
}

/** Logs the failure and answers. */
export function failRequest(thrown: unknown, reply: FastifyReply, baseUrl: string): FastifyReply {
  const error = toSignetError(thrown);
  logFailure(reply.request, error);
  return sendError(reply, error, baseUrl);
}

/** Installs the error handler and the answer to unknown addresses. */
export function installErrorHandling(server: SignetServer, baseUrl: string, allowed: AllowedMethods): void {
  server.setErrorHandler((thrown, _request, reply) => failRequest(thrown, reply, baseUrl));
  server.setNotFoundHandler((request, reply) => failRequest(noSuchRoute(request, allowed), reply, baseUrl));
}
