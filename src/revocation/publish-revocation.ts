/** Publishing a revocation: what every process that admits tokens hears of as soon as the transaction commits. */
import { encodeEntry, type EntrySources } from "../compliance/entry.ts";
import type { Actor } from "../compliance/entry-types.ts";
import type { Queryable } from "../database/pool.ts";
import { publish } from "../database/repositories/tokens/revocations.ts";
import { newId } from "../domain/ids.ts";
import { REVOCATION_ENTRIES, REVOCATION_LIFE_MS, type RevocationKind } from "./kinds.ts";

/** What is revoked, by whom and why. */
export interface NewRevocation {
  readonly kind: RevocationKind;
  /** Id of the credential, principal or tenant; `jti`; `kid`; SHA-256 of the certificate, 64 hexadecimal digits. */
  readonly target: string;
  /** Whose it is; null for a signing key or a certificate. */
  readonly tenant: string | null;
  readonly actor: Actor;
  readonly reason?: string | undefined;
  readonly requestId?: string | undefined;
  /**
   * The caller's transaction has just taken the target out of use: it is published even if it was revoked before.
   * Otherwise a target that is revoked keeps its revocation and that one is returned.
   */
  readonly anew?: boolean;
}

/** A revocation that stands once the transaction has committed. */
export interface Revocation {
  readonly id: string;
  readonly sequence: number;
  /** Whose it is; null for a signing key or a certificate. */
  readonly tenant: string | null;
  readonly at: Date;
  /** Its entry in the compliance log. */
  readonly logIndex: number;
  /** RFC 6962 leaf hash of the entry, hexadecimal. */
  readonly leafHash: string;
}

/**
 * Publishes a revocation: sequence number, row, compliance entry and notification, all in the caller's transaction and
 * after whatever it changes, because the sequence and the log stay locked until it commits.
 *
 * @param db the caller's transaction: role signet_operator, signet_issuer, signet_worker, or signet_api for a credential
 *   or a token of its tenant
 */
export async function publishRevocation(
  db: Queryable,
  revocation: NewRevocation,
  sources: EntrySources,
): Promise<Revocation> {
  const { kind, target, tenant, actor, reason, requestId, anew = false } = revocation;
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
      anew,
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
