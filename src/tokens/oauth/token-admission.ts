/** Admits Bearer tokens: verified, and not revoked according to recent knowledge. */
import { SignetError } from "#domain/errors.ts";
import { tokenRefused } from "#http/bearer-errors.ts";
import type { VerifyToken } from "./verify-access-token.ts";
import type { Identity } from "#domain/identity.ts";
import type { RevocableToken } from "#revocation/deny-list.ts";
import type { StaleReport } from "#revocation/stale-report.ts";
import type { Verdict } from "#revocation/view.ts";

/** Knowledge of revocations, such as a {@link RevocationFollower}. */
export interface RevocationKnowledge {
  readonly view: { readonly verdict: (token: RevocableToken) => Verdict };
  /** Renews the knowledge; false if that is impossible. */
  readonly renew: () => Promise<boolean>;
}

/** When many requests wait for one renewal, the knowledge may be stale again before the last one gets its verdict. */
const RENEWALS = 20;

/** Returns the verdict after a renewal; `stale` if that fails. */
async function verdictAfterRenewal(knowledge: RevocationKnowledge, token: RevocableToken): Promise<Verdict> {
  let verdict: Verdict = "stale";
  for (let left = RENEWALS; verdict === "stale" && left > 0; left -= 1) {
    if (!(await knowledge.renew())) {
      break;
    }
    verdict = knowledge.view.verdict(token);
  }
  return verdict;
}

/**
 * Whether an identity is admitted, that is, not revoked.
 *
 * @throws SignetError `REVOCATION_STALE` if that is unknown
 */
export async function isAdmitted(
  knowledge: RevocationKnowledge,
  identity: RevocableToken,
  report: Pick<StaleReport, "refused">,
): Promise<boolean> {
  let verdict = knowledge.view.verdict(identity);
  if (verdict === "stale") {
    verdict = await verdictAfterRenewal(knowledge, identity);
  }
  if (verdict === "stale") {
    report.refused();
    throw new SignetError("REVOCATION_STALE", {
      detail: "The service cannot currently determine whether the access token was revoked.",
      headers: { "retry-after": "1" },
    });
  }
  return verdict === "admit";
}

/**
 * Adds the check of revocations to a token verifier.
 *
 * @returns a verifier that also rejects with `TOKEN_REVOKED`, or with `REVOCATION_STALE` if that is unknown
 */
export function createTokenAdmission(
  verify: VerifyToken,
  knowledge: RevocationKnowledge,
  report: Pick<StaleReport, "refused" | "admitted">,
): VerifyToken {
  async function admitAfter(verifying: Identity | Promise<Identity>, token: string): Promise<Identity> {
    const identity = await verifying;
    if (await isAdmitted(knowledge, identity, report)) {
      // What renewed the knowledge also brought the time: after a suspension, the token may have expired long ago.
      await verify(token);
      report.admitted();
      return identity;
    }
    throw tokenRefused("TOKEN_REVOKED", "The access token was revoked.");
  }

  return (token) => {
    const identity = verify(token);
    if (identity instanceof Promise || knowledge.view.verdict(identity) !== "admit") {
      return admitAfter(identity, token);
    }
    report.admitted();
    return identity;
  };
}
