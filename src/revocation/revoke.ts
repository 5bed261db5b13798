/** Emergency revocation of a credential, a principal or a tenant: disabled, and published at once. */
import type { Queryable } from "../database/pool.ts";
import { type Revocable, takeOutOfUse } from "../database/repositories/tokens/revocable.ts";
import { type OwnEvent, type OwnEventSources, publishOwnEvent } from "../webhooks/ingest/own-event.ts";
import { found } from "../domain/errors.ts";
import { CAEP_EVENTS } from "../domain/security-events.ts";
import { caepMembers, credentialChanges } from "../webhooks/ssf/publish.ts";
import { holdTenant } from "./hold.ts";
import { type NewRevocation, publishRevocation, type Revocation } from "./publish-revocation.ts";

/** Author and reason of a revocation. */
export type RevokedBy = Pick<NewRevocation, "actor" | "reason" | "requestId"> & {
  /** Whether to hold the tenant, too: its deliveries wait, and its endpoints' secrets do not change. */
  readonly hold?: boolean;
};

/** Returns `data` of `credential.revoked`: our members, and those that receivers of CAEP events (OpenID) expect. */
function eventData(credentialId: string, by: RevokedBy, nowMs: number): Readonly<Record<string, unknown>> {
  const common = caepMembers(by, nowMs);
  return {
    credential_id: credentialId,
    revoked_at: new Date(nowMs).toISOString(),
    reason: by.reason ?? null,
    sub_id: { format: "opaque", id: credentialId },
    events: {
      [CAEP_EVENTS["credential-change"]]: { ...credentialChanges("revoke")[0]?.members, ...common },
      [CAEP_EVENTS["session-revoked"]]: common,
    },
  };
}

/** A credential that was revoked. */
export interface RevokedCredential extends Pick<OwnEvent, "onlyIfTaken"> {
  readonly tenantId: string;
  readonly credentialId: string;
  /** Unix milliseconds (default: now). */
  readonly atMs?: number;
}

/** Publishes `credential.revoked` in the caller's transaction. */
export async function tellEndpoints(
  db: Queryable,
  { tenantId, credentialId, atMs, onlyIfTaken = false }: RevokedCredential,
  by: RevokedBy,
  sources: OwnEventSources,
): Promise<void> {
  const data = JSON.stringify(eventData(credentialId, by, atMs ?? sources.clock.now()));
  await publishOwnEvent(db, { tenantId, type: "credential.revoked", data, onlyIfTaken }, sources);
}

/**
 * Revokes a target as the last step of the caller's transaction. An existing revocation is kept. The tenant's endpoints
 * are notified of a credential by `credential.revoked`.
 *
 * @throws SignetError `NOT_FOUND` if the target does not exist, or not in the named tenant
 */
export async function revoke(
  db: Queryable,
  target: Revocable,
  by: RevokedBy,
  sources: OwnEventSources,
): Promise<Revocation> {
  const nowMs = sources.clock.now();
  const taken = found(await takeOutOfUse(db, target, new Date(nowMs)), target.noun);
  const { id, tenantId, changed } = taken;
  if (changed && target.noun === "credential") {
    // Before the publication, which locks the sequence and the log until the commit.
    await tellEndpoints(db, { tenantId, credentialId: id }, by, sources);
  }
  if (by.hold === true) {
    await holdTenant(db, tenantId, by, sources);
  }
  return await publishRevocation(
    db,
    { ...by, kind: target.noun, target: id, tenant: tenantId, disabledNow: changed },
    sources,
  );
}
