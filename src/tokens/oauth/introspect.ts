/** `POST /v1/auth/introspect`: what a token says, to those whom it concerns (RFC 7662). */
import { decodeJwt, type JWTPayload } from "jose";
import { SignetError } from "../../domain/errors.ts";
import {
  authenticateClient,
  type ClientServices,
  readTokenParameter,
  saysNotGood,
} from "./token-parameter.ts";
import type { TokenRequest } from "./token.ts";
import type { VerifyToken } from "./verify-access-token.ts";
import type { Identity } from "../../domain/identity.ts";

export interface IntrospectServices extends ClientServices {
  /** Checks a token, revocation included. */
  readonly admit: VerifyToken;
}

/** RFC 7662 section 2.2: with the claims of a live token, and nothing at all about any other. */
export interface Introspection {
  readonly active: boolean;
  readonly [claim: string]: unknown;
}

const INACTIVE: Introspection = { active: false };

/**
 * Tells whether a token is live. Who comes with a Bearer token (its identity is given, its scope was checked) learns of
 * the tokens of its tenant; who comes with a client's own credentials, of that client's.
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
        detail: "The caller is authenticated in two ways at once; use one.",
      });
    }
    return await introspect(token, services.admit, ({ tenantId }) => tenantId === bearer.tenantId);
  }
  const { token, client } = await authenticateClient(request, services);
  return await introspect(token, services.admit, ({ credentialId }) => credentialId === client.credentialId);
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
