/** Problem documents (RFC 9457, security decisions J): the one shape of every error outside the OAuth endpoints. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { ERROR_CATALOGUE, errorSlug, type SignetError } from "../domain/errors.ts";

export const PROBLEM_JSON = "application/problem+json";

export interface ProblemContext {
  /** The public address that problem types live under. */
  readonly baseUrl: string;
  readonly requestId: string;
  /** The path that was asked for; absent when the request could not be read that far. */
  readonly path?: string | undefined;
}

/** The problem document of an error. */
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

/** The path of a request without its query, which may hold what does not belong into an error. */
export function requestPath(request: FastifyRequest): string {
  const query = request.url.indexOf("?");
  return query === -1 ? request.url : request.url.slice(0, query);
}

/** Answers with the problem document of `error`. */
export function sendProblem(reply: FastifyReply, error: SignetError, baseUrl: string): FastifyReply {
  const { request } = reply;
  // What is too long to be read is too long to be repeated.
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
