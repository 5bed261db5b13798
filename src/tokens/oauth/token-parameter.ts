/** What requests about a token have in common: RFC 7009 section 2.1 and RFC 7662 section 2.1 ask for the same. */
import type { ClientRecord } from "../../database/repositories/tokens/clients.ts";
import { SignetError } from "../../domain/errors.ts";
import type { TokenLimits } from "../../http/rate-limits/token-limits.ts";
import { type ClientAuthenticator, presentedCredentials } from "./client-authentication.ts";
import { readParameters, refuseQueryParameters, type RequestParameters } from "./request-parameters.ts";
import type { TokenRequest } from "./token.ts";

/** `token_type_hint` is read and ignored: there is one type of token. */
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

export interface ClientServices {
  readonly authenticator: ClientAuthenticator;
  readonly limits: TokenLimits;
}

/** Reads the token, and authenticates the client as the token endpoint does, within the same limits. */
export async function authenticateClient(
  request: TokenRequest,
  { authenticator, limits }: ClientServices,
): Promise<{ readonly token: string; readonly client: ClientRecord }> {
  return await limits.identify(request.address, async () => {
    const { token, parameters } = readTokenParameter(request);
    const presented = presentedCredentials(request.authorization, parameters, request.clientCertificate);
    const { client } = await limits.authenticate(
      request.address,
      presented.clientId,
      async () => await authenticator.authenticate(presented, request.clientCertificate),
    );
    return { token, client };
  });
}

/** Whether the error says that a token is not good, and not that this could not be found out. */
export function saysNotGood(error: unknown): boolean {
  return error instanceof SignetError && error.status === 401;
}
