/** How the OAuth endpoints take requests: as bytes, because they read forms too, and with an error format of their own. */
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { TokenRequest } from "../../tokens/oauth/token.ts";

export const OAUTH_BODY_LIMIT = 8_192;

/** Parameters are named in the body; the query is checked by the endpoint, which has an error format of its own. */
export const AnyQuery = Type.Unsafe<Readonly<Record<string, unknown>>>({});

/** What the OAuth endpoints read of a request. */
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
