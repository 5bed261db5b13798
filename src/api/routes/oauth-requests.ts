/** Requests of the OAuth endpoints: raw bytes, since these endpoints also parse forms, and their own error format. */
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { TokenRequest } from "../../tokens/oauth/token.ts";

export const OAUTH_BODY_LIMIT = 8_192;

/** Accepts any query here: the endpoint itself validates it, to report errors in the OAuth format. */
export const AnyQuery = Type.Unsafe<Readonly<Record<string, unknown>>>({});

/** Returns the parts of a request that the OAuth endpoints use. */
export function tokenRequest(request: FastifyRequest): TokenRequest {
  return {
    body: request.body as Buffer | undefined,
    contentType: request.headers["content-type"],
    authorization: request.headers.authorization,
    query: request.query as Readonly<Record<string, unknown>>,
    address: request.clientAddress,
    clientCertificate: request.clientCertificate,
  };
}
