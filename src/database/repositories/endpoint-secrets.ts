/** The versions of endpoints' secrets, how they stand and when they move on. */
import type { SecretVersion } from "../../domain/signing-secrets.ts";
import { SignetError } from "../../errors.ts";
import { isRefusedByState } from "../errors.ts";
import type { Queryable } from "../pool.ts";

export interface EndpointSecretVersion extends SecretVersion {
  /** The first 8 hex digits of the secret's SHA-256. */
  readonly fingerprint: string;
}

interface VersionRow {
  version: number;
  state: SecretVersion["state"];
  fingerprint: string;
  created_at: Date;
  current_at: Date | null;
  overlap_ends_at: Date | null;
  retired_at: Date | null;
}

/** An endpoint whose secrets are looked at or changed. */
export interface SecretHolder {
  readonly id: string;
  readonly tenantId: string;
  /** Since when the tenant's secrets stay as they are. */
  readonly heldAt: Date | null;
}

/** Most versions that are told of: those that are over stay as rows without a value. */
const VERSIONS_MAX = 100;

/** Undefined when there is no such endpoint. */
export async function findSecretHolder(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<SecretHolder | undefined> {
  const { rows } = await db.query<{ held_at: Date | null }>({
    name: "find-secret-holder",
    text: `SELECT t.held_at FROM endpoints e JOIN tenants t ON t.id = e.tenant_id
      WHERE e.id = $1 AND e.tenant_id = $2 AND e.state <> 'DELETED'`,
    values: [id, tenantId],
  });
  return rows[0] === undefined ? undefined : { id, tenantId, heldAt: rows[0].held_at };
}

/** The same, with the endpoint's row locked: its secrets change one after the other, and not while it is deleted. */
export async function lockSecretHolder(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<SecretHolder | undefined> {
  const { rowCount } = await db.query({
    name: "lock-secret-holder",
    text: "SELECT FROM endpoints WHERE id = $1 AND tenant_id = $2 AND state <> 'DELETED' FOR NO KEY UPDATE",
    values: [id, tenantId],
  });
  return rowCount === 1 ? await findSecretHolder(db, tenantId, id) : undefined;
}

/** Newest first, as they were written down last. */
export async function listSecretVersions(
  db: Queryable,
  { id, tenantId }: Pick<SecretHolder, "id" | "tenantId">,
): Promise<EndpointSecretVersion[]> {
  const { rows } = await db.query<VersionRow>({
    name: "list-secret-versions",
    text: `SELECT version, state, fingerprint, created_at, current_at, overlap_ends_at, retired_at FROM endpoint_secrets
      WHERE endpoint_id = $1 AND tenant_id = $2 ORDER BY version DESC LIMIT $3`,
    values: [id, tenantId, VERSIONS_MAX],
  });
  return rows.map((row) => ({
    version: row.version,
    state: row.state,
    fingerprint: row.fingerprint,
    createdAt: row.created_at,
    currentAt: row.current_at,
    overlapEndsAt: row.overlap_ends_at,
    retiredAt: row.retired_at,
  }));
}

export interface NewSecretVersion extends EndpointSecretVersion {
  readonly sealedSecret: string;
}

/** @throws SignetError `INVALID_STATE` when the tenant is held */
export async function insertSecretVersion(
  db: Queryable,
  { id, tenantId }: Pick<SecretHolder, "id" | "tenantId">,
  version: NewSecretVersion,
): Promise<void> {
  await unlessFrozen(async () => {
    await db.query({
      name: "insert-secret-version",
      text: `INSERT INTO endpoint_secrets
          (endpoint_id, version, tenant_id, secret, fingerprint, state, created_at, current_at, overlap_ends_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
      values: [
        id,
        version.version,
        tenantId,
        version.sealedSecret,
        version.fingerprint,
        version.state,
        version.createdAt,
        version.currentAt,
        version.overlapEndsAt,
      ],
    });
  });
}

/** Places that hold one version each are left before they are taken. */
const WRITE_ORDER = ["RETIRED", "PREVIOUS", "CURRENT", "NEXT"] as const;

/**
 * Writes down how versions stand; what is over is erased.
 *
 * @throws SignetError `INVALID_STATE` when the tenant is held
 */
export async function moveSecretVersions(
  db: Queryable,
  { id, tenantId }: Pick<SecretHolder, "id" | "tenantId">,
  versions: readonly EndpointSecretVersion[],
): Promise<void> {
  for (const { version, state, currentAt, overlapEndsAt, retiredAt } of versions.toSorted(
    (left, right) => WRITE_ORDER.indexOf(left.state) - WRITE_ORDER.indexOf(right.state),
  )) {
    await unlessFrozen(async () => {
      await db.query({
        name: "move-secret-version",
        text: `UPDATE endpoint_secrets SET state = $4, current_at = $5, overlap_ends_at = $6, retired_at = $7,
            secret = CASE WHEN $4 = 'RETIRED' THEN '' ELSE secret END
          WHERE endpoint_id = $1 AND tenant_id = $2 AND version = $3`,
        values: [id, tenantId, version, state, currentAt, overlapEndsAt, retiredAt],
      });
    });
  }
}

async function unlessFrozen(write: () => Promise<void>): Promise<void> {
  try {
    await write();
  } catch (error) {
    if (isRefusedByState(error, "endpoint_secrets_frozen")) {
      throw new SignetError("INVALID_STATE", {
        detail: "The tenant is held: its endpoints' secrets stay as they are, and there are no new ones.",
        cause: error,
      });
    }
    throw error;
  }
}

/** Endpoints with a version whose time has come, of tenants that are not held (role signet_worker). */
export async function findDueMoves(
  db: Queryable,
  { now, limit }: { readonly now: Date; readonly limit: number },
): Promise<{ readonly id: string; readonly tenantId: string }[]> {
  const { rows } = await db.query<{ endpoint_id: string; tenant_id: string }>({
    name: "find-due-moves",
    text: `SELECT DISTINCT s.endpoint_id, s.tenant_id FROM endpoint_secrets s JOIN tenants t ON t.id = s.tenant_id
      WHERE s.state IN ('NEXT', 'PREVIOUS') AND t.held_at IS NULL
        AND CASE s.state WHEN 'NEXT' THEN s.current_at ELSE s.overlap_ends_at END <= $1
      LIMIT $2`,
    values: [now, limit],
  });
  return rows.map((row) => ({ id: row.endpoint_id, tenantId: row.tenant_id }));
}

/** Puts off what has not happened when the hold began by as long as it was (role signet_operator). */
export async function postponeMoves(
  db: Queryable,
  tenantId: string,
  { heldAt, releasedAt }: { readonly heldAt: Date; readonly releasedAt: Date },
): Promise<void> {
  await db.query({
    name: "postpone-moves",
    text: `UPDATE endpoint_secrets SET
        current_at = CASE WHEN state = 'NEXT' AND current_at > $2 THEN current_at + ($3 - $2) ELSE current_at END,
        overlap_ends_at = CASE WHEN overlap_ends_at > $2 THEN overlap_ends_at + ($3 - $2) ELSE overlap_ends_at END
      WHERE tenant_id = $1 AND state IN ('NEXT', 'PREVIOUS')`,
    values: [tenantId, heldAt, releasedAt],
  });
}
