/** Wires the check of access tokens and their revocation for a process that admits tokens. */
import { randomBytes } from "node:crypto";
import type { TokenStatusServices } from "#api/routes/token-status.ts";
import type { Config } from "#config/config.ts";
import type { Pool } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import type { Clock } from "#domain/clock.ts";
import type { KeyStore } from "#tokens/signing-keys/key-store.ts";
import type { Logger } from "#observability/logger.ts";
import { createTokenVerifier, type VerifyToken } from "#tokens/oauth/verify-access-token.ts";
import type { Follower } from "../revocation.ts";
import { publishRevocation } from "#revocation/publish-revocation.ts";
import type { Receipts } from "#revocation/receipts.ts";
import { createStaleReport } from "#revocation/stale-report.ts";
import type { RevocableToken } from "#revocation/deny-list.ts";
import { createTokenAdmission, isAdmitted } from "#tokens/oauth/token-admission.ts";

export interface TokenProcessServices {
  readonly config: Pick<Config, "publicUrl" | "audience" | "resources">;
  readonly keys: Pick<KeyStore, "verificationKey">;
  readonly follower: Follower;
  /** Role signet_issuer. */
  readonly pools: { readonly issuer: Pool };
  readonly clock: Clock;
  readonly log: Logger;
  /** Waits until processes enforce a revocation, and records the receipt. */
  readonly receipts: Pick<Receipts, "of">;
}

/** Token checks: admission to this process, and introspection or revocation for every resource. */
export interface Tokens {
  /** Admits only tokens of this process's audience. */
  readonly admit: VerifyToken;
  /** Whether an identity without a token is still valid. */
  readonly isAdmitted: (identity: RevocableToken) => Promise<boolean>;
  readonly status: Pick<TokenStatusServices, "verify" | "admit" | "revoke">;
}

export function createTokens(parts: TokenProcessServices): Tokens {
  const { config, keys, follower, pools, clock, receipts } = parts;
  const { publicUrl: issuer, audience, resources = [] } = config;
  const verifier = (accepted: readonly string[]): VerifyToken =>
    createTokenVerifier({ issuer, audience: accepted, keys, clock });
  const verifyOwn = verifier([audience]);
  const verify = resources.length === 0 ? verifyOwn : verifier([audience, ...resources]);
  const report = createStaleReport(parts);
  return {
    admit: createTokenAdmission(verifyOwn, follower, report),
    isAdmitted: async (identity) => await isAdmitted(follower, identity, report),
    status: {
      verify,
      admit: createTokenAdmission(verify, follower, report),
      revoke: async ({ jti: target, tenantId: tenant, credentialId }, requestId) => {
        const actor = `credential:${credentialId}` as const;
        const revocation = await transaction(
          pools.issuer,
          async (db) =>
            await publishRevocation(
              db,
              { kind: "jti", target, tenant, actor, requestId },
              { ...parts, randomBytes },
            ),
        );
        await receipts.of(revocation);
      },
    },
  };
}
