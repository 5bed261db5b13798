/** The way of every Bearer token into the service: checked, not revoked, and by recent knowledge. */
import { SignetError } from "../../domain/errors.ts";
import { tokenRefused } from "../../http/bearer-errors.ts";
import type { VerifyToken } from "./verify-access-token.ts";
import type { Identity } from "../../domain/identity.ts";
import type { RevocableToken } from "../../revocation/deny-list.ts";
import type { StaleReport } from "../../revocation/stale-report.ts";
import type { Verdict } from "../../revocation/view.ts";

/** What admits: a {@link RevocationFollower}. */
export interface RevocationKnowledge {
  readonly view: { readonly verdict: (token: RevocableToken) => Verdict };
  /** Makes the knowledge recent again; false when nobody can. */
  readonly renew: () => Promise<boolean>;
}

/** Of many requests that waited for one renewal, the last may come to their verdict when it is over again. */
const RENEWALS = 20;

/** The verdict by renewed knowledge; `stale` when there is none. */
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
 * Whether what an identity stands for is not revoked.
 *
 * @throws SignetError `REVOCATION_STALE` when nobody can say
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
      detail: "Whether the access token was revoked cannot be told at the moment.",
      headers: { "retry-after": "1" },
    });
  }
  return verdict === "admit";
}

/**
 * Adds revocation to the check of access tokens.
 *
 * @returns a check that also rejects with `TOKEN_REVOKED`, or with `REVOCATION_STALE` when nobody can say
 */
export function createTokenAdmission(
  verify: VerifyToken,
  knowledge: RevocationKnowledge,
  report: StaleReport,
): VerifyToken {
  async function admitAfter(verifying: Identity | Promise<Identity>): Promise<Identity> {
    const identity = await verifying;
    if (await isAdmitted(knowledge, identity, report)) {
      report.admitted();
      return identity;
    }
    throw tokenRefused("TOKEN_REVOKED", "The access token was revoked.");
  }

  return (token) => {
    const identity = verify(token);
    if (identity instanceof Promise || knowledge.view.verdict(identity) !== "admit") {
      return admitAfter(identity);
    }
    report.admitted();
    return identity;
  };
}
