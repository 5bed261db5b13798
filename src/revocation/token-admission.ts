/** The way of every Bearer token into the service: checked, not revoked, and by recent knowledge. */
import { SignetError } from "../errors.ts";
import { metrics } from "../observability/metrics.ts";
import { tokenRefused } from "../oauth/bearer-errors.ts";
import type { VerifyToken } from "../oauth/verify-access-token.ts";
import type { RevocableToken } from "./deny-list.ts";
import type { Verdict } from "./view.ts";

/** How long a request waits for the one look that is taken when what is known is too old. */
const LOOK_MS = 100;

/** What admits: a {@link RevocationFollower}. */
export interface RevocationKnowledge {
  readonly view: { readonly verdict: (token: RevocableToken) => Verdict };
  readonly look: () => Promise<boolean>;
}

/** The verdict after a look, or `stale` when the look takes too long. */
async function verdictAfterLook(knowledge: RevocationKnowledge, token: RevocableToken): Promise<Verdict> {
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<void>((resolve) => {
    // After a stall of this process the timer is due before the answer that has long arrived is read.
    timer = setTimeout(() => setImmediate(resolve), LOOK_MS);
  });
  await Promise.race([knowledge.look(), tooLong]);
  clearTimeout(timer);
  return knowledge.view.verdict(token);
}

/**
 * Adds revocation to the check of access tokens.
 *
 * @returns a check that also rejects with `TOKEN_REVOKED`, or with `REVOCATION_STALE` when nobody can say
 */
export function createTokenAdmission(verify: VerifyToken, knowledge: RevocationKnowledge): VerifyToken {
  return async (token) => {
    const identity = await verify(token);
    let verdict = knowledge.view.verdict(identity);
    if (verdict === "stale") {
      verdict = await verdictAfterLook(knowledge, identity);
    }
    if (verdict === "admit") {
      return identity;
    }
    if (verdict === "revoked") {
      throw tokenRefused("TOKEN_REVOKED", "The access token was revoked.");
    }
    metrics.revocationStale.inc();
    throw new SignetError("REVOCATION_STALE", {
      detail: "Whether the access token was revoked cannot be told at the moment.",
      headers: { "retry-after": "1" },
    });
  };
}
