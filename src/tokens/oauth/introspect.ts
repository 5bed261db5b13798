/** `POST /v1/auth/introspect`: returns the claims of a token to those entitled to them (RFC 7662). */
import { decodeJwt, type JWTPayload } from "jose";
import { SignetError } from "#domain/errors.ts";
import {
  authenticateClient,
  type ClientServices,
  readTokenParameter,
  saysNotGood,
} from "./token-parameter.ts";
import type { TokenRequest } from "./token.ts";
import type { VerifyToken } from "./verify-access-token.ts";
import type { Identity } from "#domain/identity.ts";

export interface IntrospectServices extends ClientServices {
  /** Verifies a token, including its revocation. */
  readonly admit: VerifyToken;
}

/** RFC 7662 section 2.2. Includes the claims only of an active token. */
export interface Introspection {
  readonly active: boolean;
  readonly [claim: string]: unknown;
}

const INACTIVE: Introspection = { active: false };

/**
 * Reports whether a token is active. A caller with a Bearer token, whose scope the route has checked, learns about the
 * tokens of its tenant. A caller with client credentials learns about the tokens of that client.
 */
export async function introspectToken(
  request: TokenRequest,
  bearer: Identity | undefined,
  services: IntrospectServices,
): Promise<Introspection> {
  if (bearer !== undefined) {
    const { token, parameters } = readTokenParameter(request);
    if (parameters["client_secret"] !== undefined || parameters["client_assertion"] !== undefined) {
      throw new SignetError("INVALID_REQUEST", {
        detail: "The caller is authenticated in two ways; use only one.",
      });
    }
    return await introspect(token, services.admit, ({ tenantId }) => tenantId === bearer.tenantId);
  }
  const { token, client } = await authenticateClient(request, services);
  return await introspect(token, services.admit, ({ credentialId }) => credentialId === client.credential_id);
}

function live(claims: JWTPayload): Introspection {
  return { active: true, token_type: "Bearer", ...claims };
}

async function introspect(
  token: string,
  admit: VerifyToken,
  concerns: (identity: Identity) => boolean,
): Promise<Introspection> {
  try {
    const identity = await admit(token);
    return concerns(identity) ? live(decodeJwt(token)) : INACTIVE;
  } catch (error) {
    if (saysNotGood(error)) {
      return INACTIVE;
    }
    throw error;
  }
}
