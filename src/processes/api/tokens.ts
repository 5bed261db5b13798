/** Wires the check of access tokens and their revocation for a process that admits tokens. */
import type { TokenStatusServices } from "#api/routes/token-status.ts";
import { transaction } from "#database/transaction.ts";
import { createTokenVerifier, type VerifyToken } from "#tokens/oauth/verify-access-token.ts";
import { publishRevocation } from "#revocation/publish-revocation.ts";
import { StaleReport } from "#revocation/stale-report.ts";
import type { RevocableToken } from "#revocation/deny-list.ts";
import { createTokenAdmission, isAdmitted } from "#tokens/oauth/token-admission.ts";
import type { ApiProcessServices } from "./services.ts";

/** Token checks: admission to this process, and introspection or revocation for every resource. */
export interface Tokens {
  /** Admits only tokens of this process's audience. */
  readonly admit: VerifyToken;
  /** Whether an identity without a token is still valid. */
  readonly isAdmitted: (identity: RevocableToken) => Promise<boolean>;
  readonly status: Pick<TokenStatusServices, "verify" | "admit" | "revoke">;
}

export function createTokens(services: ApiProcessServices): Tokens {
  const { issuer, keys, pools, tokenClock: clock, receipts, randomBytes, log } = services;
  const { follower } = services.revocation;
  const { audience, resources = [] } = services.config;
  const verifier = (accepted: readonly string[]): VerifyToken =>
    createTokenVerifier({ issuer, audience: accepted, keys, clock });
  const verifyOwn = verifier([audience]);
  const verify = resources.length === 0 ? verifyOwn : verifier([audience, ...resources]);
  const report = new StaleReport({ clock, log });
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
              { clock, randomBytes },
            ),
        );
        await receipts.of(revocation);
      },
    },
  };
}
