/** Emergency revocation of what leaked, in one transaction, with the receipt's revocations. */
import type { EntryServices } from "#compliance/entry.ts";
import type { PoolClient } from "#database/pool.ts";
import { findRevocation } from "#database/repositories/tokens/revocations.ts";
import { validationFailed } from "#domain/errors.ts";
import { holdTenant } from "#revocation/hold.ts";
import {
  publishPolicyChange,
  publishRevocation,
  type Revocation,
  revocationOf,
} from "#revocation/publish-revocation.ts";
import { revoke, type RevokedBy } from "#revocation/revoke.ts";
import { revokeProducerSecretVersions } from "../producers/producer-secrets.ts";
import type { FoundLeak, LeakScope } from "./find-leak.ts";

/** What {@link revokeLeak} revokes; {@link revokeSigningKey} revokes signing keys. */
export type RevocableLeak = Exclude<FoundLeak, { kind: "kid" }>;

type Found<Kind extends FoundLeak["kind"]> = Extract<FoundLeak, { kind: Kind }>;

async function revokeCredentials(
  db: PoolClient,
  { owners }: Found<"credential">,
  by: RevokedBy,
  sources: EntryServices,
): Promise<Revocation[]> {
  const revocations: Revocation[] = [];
  for (const { id, tenant_id: tenantId } of owners) {
    revocations.push(await revoke(db, { noun: "credential", id, tenantId }, by, sources));
  }
  return revocations;
}

/**
 * Ends one version of a producer secret. Signatures are checked without a cache, so that takes effect at the commit; the
 * receipt shows that every process has caught up with it.
 */
async function revokeSigningSecret(
  db: PoolClient,
  { owner, version }: Found<"signing_secret">,
  { hold, actor, reason, requestId }: RevokedBy,
  sources: EntryServices,
): Promise<Revocation[]> {
  const { id, tenant_id: tenantId } = owner;
  const by = { actor, requestId };
  if (hold === true) {
    await holdTenant(db, tenantId, { ...by, reason }, sources);
  }
  await revokeProducerSecretVersions(
    db,
    { id, tenant_id: tenantId, state: "ACTIVE" },
    { version, reason, by },
    sources,
  );
  const { sequence } = await publishPolicyChange(db, { tenantId, actor }, sources);
  const row = await findRevocation(db, sequence);
  if (row === undefined) {
    throw new Error(`the change ${sequence} is not visible to its own transaction`);
  }
  return [revocationOf(row)];
}

/**
 * Revokes what leaked as the last step of the caller's transaction. Existing revocations are kept and returned.
 *
 * @param db transaction of role signet_operator, or of signet_api for the tenant in `scope`
 * @returns one revocation per object, at least one
 * @throws SignetError `VALIDATION_FAILED` for a hold if no tenant is known
 */
export async function revokeLeak(
  db: PoolClient,
  leak: RevocableLeak,
  by: RevokedBy,
  sources: EntryServices,
): Promise<readonly Revocation[]> {
  if (leak.kind === "credential") {
    return await revokeCredentials(db, leak, by, sources);
  }
  if (leak.kind === "signing_secret") {
    return await revokeSigningSecret(db, leak, by, sources);
  }
  const tenant = leak.kind === "jti" ? (leak.owner?.tenant_id ?? null) : null;
  if (by.hold === true) {
    await holdTenant(db, requireTenant(tenant), by, sources);
  }
  const { actor, reason, requestId } = by;
  const target = leak.kind === "jti" ? leak.jti : leak.sha256;
  const revocation = { kind: leak.kind, target, tenant, actor, reason, requestId };
  return [await publishRevocation(db, revocation, sources)];
}

/** @throws SignetError `VALIDATION_FAILED` */
export function requireTenant(tenant: LeakScope): string {
  if (tenant === null) {
    throw validationFailed([
      {
        pointer: "/scope",
        code: "not_applicable",
        detail: "needs a credential, a secret or a whole token, which name a tenant",
      },
    ]);
  }
  return tenant;
}
