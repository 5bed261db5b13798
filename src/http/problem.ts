/** Problem documents (RFC 9457, security decisions J), the format of all errors outside the OAuth endpoints. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { ERROR_CATALOGUE, errorSlug, type SignetError } from "#domain/errors.ts";

export const PROBLEM_JSON = "application/problem+json";

export interface ProblemContext {
  /** Public base URL of the problem types. */
  readonly baseUrl: string;
  readonly requestId: string;
  /** Path of the request; absent if it could not be read. */
  readonly path?: string | undefined;
}

/** Returns the problem document of an error. */
export function problemDocument(error: SignetError, context: ProblemContext): Record<string, unknown> {
  return {
    type: `${context.baseUrl}/errors/${errorSlug(error.code)}`,
    title: ERROR_CATALOGUE[error.code].title,
    status: error.status,
    code: error.code,
    detail: error.message,
    ...error.extensions,
    ...(context.path === undefined ? {} : { instance: context.path }),
    request_id: context.requestId,
  };
}

/** Returns the path of a request without its query, which may contain secrets. */
export function requestPath(request: FastifyRequest): string {
  const query = request.url.indexOf("?");
  return query === -1 ? request.url : request.url.slice(0, query);
}

/** Sends the problem document of `error`. */
export function sendProblem(reply: FastifyReply, error: SignetError, baseUrl: string): FastifyReply {
  const { request } = reply;
  // Do not repeat a path that is too long.
  const path = error.code === "URI_TOO_LONG" ? undefined : requestPath(request);
  return reply
    .code(error.status)
    .headers(error.headers)
    .header("x-request-id", request.id)
    .header("cache-control", "no-store")
    .type(PROBLEM_JSON)
    .serializer(JSON.stringify)
    .send(problemDocument(error, { baseUrl, requestId: request.id, path }));
}
