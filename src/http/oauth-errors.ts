/** Sends errors of OAuth endpoints in the OAuth format, all others as problem documents. */
import type { FastifyReply } from "fastify";
import type { SignetError } from "../domain/errors.ts";
import { OAUTH_HEADERS, OAUTH_PATHS, oauthErrorBody } from "./oauth-error.ts";
import { requestPath, sendProblem } from "./problem.ts";

/** Sends `error` in the format of the requested path. */
export function sendError(reply: FastifyReply, error: SignetError, baseUrl: string): FastifyReply {
  const { request } = reply;
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
