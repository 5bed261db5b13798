/**
 * Publishes revocations, their lifting, and changes of a tenant's policy: all in one sequence. Every process that admits
 * tokens is notified when the transaction commits.
 */
import { encodeEntry, type EntryServices } from "#compliance/entry.ts";
import type { Actor } from "#compliance/entry-types.ts";
import type { Queryable } from "#database/pool.ts";
import {
  liftTenantRevocation,
  publish,
  publishPolicyChange as publishPolicy,
  type RevocationRow,
} from "#database/repositories/tokens/revocations.ts";
import { newId } from "#domain/ids.ts";
import { REVOCATION_ENTRIES, REVOCATION_LIFE_MS, type RevocationKind } from "./kinds.ts";

/** How far the clock of a token-issuing process may be ahead of the database's, in milliseconds. */
const SKEW_MS = 1_000;
/** How long a change of policy is kept. It exceeds the time for which processes cache a policy. In milliseconds. */
const POLICY_KNOWN_FOR_MS = 60_000;

/** The target, author and reason of a revocation. */
export interface NewRevocation {
  readonly kind: RevocationKind;
  /** Id of the credential, principal or tenant; `jti`; `kid`; SHA-256 of the certificate, 64 hexadecimal digits. */
  readonly target: string;
  /** The target's tenant; null for a signing key or a certificate. */
  readonly tenant: string | null;
  readonly actor: Actor;
  readonly reason?: string | undefined;
  readonly requestId?: string | undefined;
  /**
   * Whether the caller's transaction has just disabled the target. If so, it is published even if it was revoked
   * before. Otherwise an existing revocation of the target is kept and returned.
   */
  readonly disabledNow?: boolean;
}

/** A revocation that takes effect when the transaction commits. */
export interface Revocation {
  readonly id: string;
  readonly sequence: number;
  /** The target's tenant; null for a signing key or a certificate. */
  readonly tenant: string | null;
  readonly at: Date;
  /** Index of its entry in the compliance log. */
  readonly logIndex: number;
  /** RFC 6962 leaf hash of the entry, hexadecimal. */
  readonly leafHash: string;
}

/** The part of a change that its caller waits for, after the commit (receipts.ts). */
export type Published = Pick<Revocation, "id" | "sequence" | "tenant">;

/** Returns the revocation that a row records. */
export function revocationOf(row: RevocationRow): Revocation {
  return {
    id: row.id,
    sequence: row.seq,
    tenant: row.tenant_id,
    at: row.at,
    logIndex: row.log_index,
    leafHash: row.leaf_hash.toString("hex"),
  };
}

/**
 * Publishes a revocation in the caller's transaction: sequence number, row, compliance entry, notification, and a notice
 * for the worker that publishes its events. Must come after all other changes, because the sequence and the log stay
 * locked until the commit.
 *
 * @param db the caller's transaction: role signet_operator, signet_issuer, signet_worker, or signet_api for a credential
 *   or a token of its tenant
 */
export async function publishRevocation(
  db: Queryable,
  revocation: NewRevocation,
  sources: EntryServices,
): Promise<Revocation> {
  const { kind, target, tenant, actor, reason, requestId, disabledNow = false } = revocation;
  const id = newId("revocation", sources.clock.now(), sources.randomBytes);
  const entry = encodeEntry(
    {
      type: REVOCATION_ENTRIES[kind],
      actor,
      tenant,
      target,
      reason,
      requestId,
      details: { revocation_id: id },
    },
    sources,
  );
  const row = await publish(
    db,
    {
      id,
      kind,
      target,
      tenantId: tenant,
      reason: reason ?? null,
      actor,
      lifeMs: REVOCATION_LIFE_MS[kind],
      disabledNow,
    },
    entry,
  );
  return revocationOf(row);
}

/**
 * Publishes that a tenant is readmitted, with its entry `tenant.resumed`. Its old tokens stay invalid; new ones are
 * valid. Must be the last step of the caller's transaction.
 *
 * @param db role signet_operator
 */
export async function liftRevocation(
  db: Queryable,
  tenantId: string,
  { actor, reason, requestId }: Pick<NewRevocation, "actor" | "reason" | "requestId">,
  sources: EntryServices,
): Promise<Published> {
  const id = newId("revocation", sources.clock.now(), sources.randomBytes);
  const entry = encodeEntry(
    { type: "tenant.resumed", actor, tenant: tenantId, target: tenantId, reason, requestId },
    sources,
  );
  const lifeMs = REVOCATION_LIFE_MS.tenant ?? 0;
  const row = { id, tenantId, reason: reason ?? null, actor, lifeMs, skewMs: SKEW_MS };
  return { id, sequence: await liftTenantRevocation(db, row, entry), tenant: tenantId };
}

/**
 * Publishes a change of a tenant's policy. Once it is answered, no process that admits tokens applies the old policy.
 * Must be the last step of the caller's transaction, after the change's compliance entry.
 *
 * @param db role signet_operator, or signet_api for its own tenant
 * @returns the change to wait for after the commit, before the caller answers
 */
export async function publishPolicyChange(
  db: Queryable,
  { tenantId, actor }: { readonly tenantId: string; readonly actor: Actor },
  sources: EntryServices,
): Promise<Published> {
  const id = newId("revocation", sources.clock.now(), sources.randomBytes);
  return {
    id,
    sequence: await publishPolicy(db, { id, tenantId, actor, lifeMs: POLICY_KNOWN_FOR_MS }),
    tenant: tenantId,
  };
}
