/** Publishes revocations. Every process that admits tokens is notified when the transaction commits. */
import { encodeEntry, type EntrySources } from "../compliance/entry.ts";
import type { Actor } from "../compliance/entry-types.ts";
import type { Queryable } from "../database/pool.ts";
import { publish } from "../database/repositories/tokens/revocations.ts";
import { newId } from "../domain/ids.ts";
import { REVOCATION_ENTRIES, REVOCATION_LIFE_MS, type RevocationKind } from "./kinds.ts";

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

/**
 * Publishes a revocation in the caller's transaction: sequence number, row, compliance entry and notification. Must
 * come after all other changes, because the sequence and the log stay locked until the commit.
 *
 * @param db the caller's transaction: role signet_operator, signet_issuer, signet_worker, or signet_api for a credential
 *   or a token of its tenant
 */
export async function publishRevocation(
  db: Queryable,
  revocation: NewRevocation,
  sources: EntrySources,
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
  return {
    id: row.id,
    sequence: row.seq,
    tenant: row.tenant_id,
    at: row.at,
    logIndex: row.log_index,
    leafHash: row.leaf_hash.toString("hex"),
  };
}
