/** `POST /v1/auth/revoke`: token revocation (RFC 7009). */
import { authenticateClient, type ClientServices, saysNotGood } from "./token-parameter.ts";
import type { TokenRequest } from "./token.ts";
import type { VerifyToken } from "./verify-access-token.ts";
import type { Identity } from "#domain/identity.ts";

export interface RevokeServices extends ClientServices {
  /** Verifies a token, ignoring its revocation. */
  readonly verify: VerifyToken;
  /** Revokes the token of the identity. */
  readonly revoke: (identity: Identity, requestId: string) => Promise<void>;
}

/**
 * Revokes a token of the authenticated client. An unknown, expired, revoked or foreign token gets the same answer as a
 * revocation (section 2.2). The caller learns nothing about the tokens of others.
 */
export async function revokeToken(
  request: TokenRequest,
  requestId: string,
  services: RevokeServices,
): Promise<void> {
  const { token, client } = await authenticateClient(request, services);
  services.limits.admitClient(client.client_id);
  const identity = await identityIfGood(token, services.verify);
  if (identity?.credentialId === client.credential_id) {
    await services.revoke(identity, requestId);
  }
}

async function identityIfGood(token: string, verify: VerifyToken): Promise<Identity | undefined> {
  try {
    return await verify(token);
  } catch (error) {
    if (saysNotGood(error)) {
      return undefined;
    }
    throw error;
  }
}
