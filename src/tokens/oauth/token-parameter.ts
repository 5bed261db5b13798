/** Common parts of requests about a token (RFC 7009 section 2.1, RFC 7662 section 2.1). */
import type { ClientRecord } from "#database/repositories/tokens/clients.ts";
import { SignetError } from "#domain/errors.ts";
import { presentedCredentials } from "./client-authentication.ts";
import { readParameters, refuseQueryParameters, type RequestParameters } from "./request-parameters.ts";
import type { TokenRequest, TokenServices } from "./token.ts";

/** `token_type_hint` is accepted and ignored, because there is only one type of token. */
const PARAMETERS = [
  "token",
  "token_type_hint",
  "client_id",
  "client_secret",
  "client_assertion",
  "client_assertion_type",
];

/** A request that names a token. */
export interface TokenParameter {
  readonly token: string;
  readonly parameters: RequestParameters;
}

/** Reads the body, which must name a token. */
export function readTokenParameter(request: TokenRequest): TokenParameter {
  refuseQueryParameters(request.query);
  const parameters = readParameters(request.body, request.contentType, PARAMETERS);
  const { token } = parameters;
  if (token === undefined) {
    throw new SignetError("INVALID_REQUEST", { detail: "Parameter token is missing." });
  }
  return { token, parameters };
}

export type ClientServices = Pick<TokenServices, "authenticate" | "limits">;

/** Reads the token, and authenticates the client like the token endpoint, under the same limits. */
export async function authenticateClient(
  request: TokenRequest,
  { authenticate, limits }: ClientServices,
): Promise<{ readonly token: string; readonly client: ClientRecord }> {
  return await limits.identify(request.address, async () => {
    const { token, parameters } = readTokenParameter(request);
    const presented = presentedCredentials(request.authorization, parameters, request.clientCertificate);
    const { client } = await limits.authenticate(
      request.address,
      presented.clientId,
      async () => await authenticate(presented, request.clientCertificate),
    );
    return { token, client };
  });
}

/** Whether the error means that the token is invalid, not that its check failed. */
export function saysNotGood(error: unknown): boolean {
  return error instanceof SignetError && error.status === 401;
}
