/** Emergency revocation of a credential, a principal or a tenant: out of use, and known everywhere at once. */
import type { Queryable } from "../database/pool.ts";
import { type Revocable, takeOutOfUse } from "../database/repositories/tokens/revocable.ts";
import { type OwnEventSources, publishOwnEvent } from "../webhooks/ingest/own-event.ts";
import { SignetError } from "../domain/errors.ts";
import { holdTenant } from "./hold.ts";
import { type NewRevocation, publishRevocation, type Revocation } from "./publish-revocation.ts";

/** Who revokes, and why. */
export type RevokedBy = Pick<NewRevocation, "actor" | "reason" | "requestId"> & {
  /** Also lets the tenant's deliveries wait and keeps its endpoints' secrets as they are. */
  readonly hold?: boolean;
};

const CAEP = "https://schemas.openid.net/secevent/caep/event-type";

/** `data` of `credential.revoked`: ours, and what a receiver of CAEP events (OpenID) finds under its own names. */
function eventData(
  credentialId: string,
  { actor, reason }: RevokedBy,
  nowMs: number,
): Readonly<Record<string, unknown>> {
  const common = {
    event_timestamp: Math.floor(nowMs / 1_000),
    initiating_entity: actor.startsWith("operator:") ? "admin" : "system",
    ...(reason === undefined ? {} : { reason_admin: { en: reason } }),
  };
  return {
    credential_id: credentialId,
    revoked_at: new Date(nowMs).toISOString(),
    reason: reason ?? null,
    sub_id: { format: "opaque", id: credentialId },
    events: {
      [`${CAEP}/credential-change`]: {
        credential_type: "client-credential",
        change_type: "revoke",
        ...common,
      },
      [`${CAEP}/session-revoked`]: common,
    },
  };
}

/** Tells the tenant's endpoints of a credential that the caller's transaction has just taken out of use. */
export async function tellEndpoints(
  db: Queryable,
  { tenantId, credentialId }: { readonly tenantId: string; readonly credentialId: string },
  by: RevokedBy,
  sources: OwnEventSources,
): Promise<void> {
  const data = JSON.stringify(eventData(credentialId, by, sources.clock.now()));
  await publishOwnEvent(db, { tenantId, type: "credential.revoked", data }, sources);
}

/**
 * Revokes, as the last step of the caller's transaction. What is revoked already keeps its revocation. Endpoints of the
 * tenant hear of a credential as `credential.revoked`.
 *
 * @throws SignetError `NOT_FOUND` when there is no such thing, or not in the tenant that is named
 */
export async function revoke(
  db: Queryable,
  target: Revocable,
  by: RevokedBy,
  sources: OwnEventSources,
): Promise<Revocation> {
  const nowMs = sources.clock.now();
  const taken = await takeOutOfUse(db, target, new Date(nowMs));
  if (taken === undefined) {
    throw new SignetError("NOT_FOUND", { detail: `There is no such ${target.noun}.` });
  }
  const { tenantId, changed } = taken;
  if (changed && target.noun === "credential") {
    // Before the publication, which locks the sequence and the log until the commit.
    await tellEndpoints(db, { tenantId, credentialId: target.id }, by, sources);
  }
  if (by.hold === true) {
    await holdTenant(db, tenantId, by, sources);
  }
  return await publishRevocation(
    db,
    { ...by, kind: target.noun, target: target.id, tenant: tenantId, anew: changed },
    sources,
  );
}
