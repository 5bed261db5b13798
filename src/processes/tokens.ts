/** The check of access tokens and their revocation, put together for a process that admits them. */
import { randomBytes } from "node:crypto";
import type { TokenStatusServices } from "../api/routes/token-status.ts";
import type { Config } from "../config.ts";
import type { Pool } from "../database/pool.ts";
import { transaction } from "../database/transaction.ts";
import type { Clock } from "../domain/clock.ts";
import type { KeyStore } from "../oauth/key-store.ts";
import { createTokenVerifier } from "../oauth/verify-access-token.ts";
import type { RevocationFollower } from "../revocation/follower.ts";
import { publishRevocation } from "../revocation/publish-revocation.ts";
import { createTokenAdmission } from "../revocation/token-admission.ts";

export interface TokenParts {
  readonly config: Pick<Config, "publicUrl" | "audience">;
  readonly keys: Pick<KeyStore, "verificationKey">;
  readonly follower: RevocationFollower;
  /** Role signet_issuer. */
  readonly pool: Pool;
  readonly clock: Clock;
}

export function createTokens(parts: TokenParts): Pick<TokenStatusServices, "verify" | "admit" | "revoke"> {
  const { config, keys, follower, pool, clock } = parts;
  const { publicUrl: issuer, audience } = config;
  const verify = createTokenVerifier({ issuer, audience, verificationKey: keys.verificationKey, clock });
  return {
    verify,
    admit: createTokenAdmission(verify, follower),
    revoke: async ({ jti: target, tenantId: tenant, credentialId }, requestId) => {
      const actor = `credential:${credentialId}` as const;
      await transaction(pool, async (db) => {
        await publishRevocation(
          db,
          { kind: "jti", target, tenant, actor, requestId },
          { clock, randomBytes },
        );
      });
    },
  };
}
