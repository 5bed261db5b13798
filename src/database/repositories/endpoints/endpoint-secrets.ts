/** The versions of endpoints' secrets, how they stand and when they move on. */
import type { SecretVersion } from "../../../domain/signing-secrets.ts";
import { SignetError } from "../../../domain/errors.ts";
import { isRefusedByState } from "../../errors.ts";
import type { Queryable } from "../../pool.ts";

export interface EndpointSecretVersion extends SecretVersion {
  /** The first 8 hex digits of the secret's SHA-256. */
  readonly fingerprint: string;
  /** Ed25519, `whpk_…`; null where the endpoint has not asked for such signatures. */
  readonly publicKey: string | null;
  /** The secret, encrypted to the tenant's own key: of versions that were made on schedule. */
  readonly encryptedSecret: string | null;
}

interface VersionRow {
  version: number;
  state: SecretVersion["state"];
  fingerprint: string;
  created_at: Date;
  current_at: Date | null;
  overlap_ends_at: Date | null;
  retired_at: Date | null;
  public_key: string | null;
  encrypted_secret: string | null;
}

/** An endpoint whose secrets are looked at or changed. */
export interface SecretHolder {
  readonly id: string;
  readonly tenantId: string;
  /** Since when the tenant's secrets stay as they are. */
  readonly heldAt: Date | null;
  readonly rotationDays: number | null;
  /** A public JWK, JSON. */
  readonly recipient: string | null;
}

/** Most versions that are told of: those that are over stay as rows without a value. */
const VERSIONS_MAX = 100;

/** Undefined when there is no such endpoint. */
export async function findSecretHolder(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<SecretHolder | undefined> {
  const { rows } = await db.query<{
    held_at: Date | null;
    secret_rotation_days: number | null;
    secret_recipient: string | null;
  }>({
    name: "find-secret-holder",
    text: `SELECT t.held_at, e.secret_rotation_days, e.secret_recipient FROM endpoints e JOIN tenants t ON t.id = e.tenant_id
      WHERE e.id = $1 AND e.tenant_id = $2 AND e.state <> 'DELETED'`,
    values: [id, tenantId],
  });
  const row = rows[0];
  return row === undefined
    ? undefined
    : {
        id,
        tenantId,
        heldAt: row.held_at,
        rotationDays: row.secret_rotation_days,
        recipient: row.secret_recipient,
      };
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
    text: `SELECT version, state, fingerprint, created_at, current_at, overlap_ends_at, retired_at,
        public_key, encrypted_secret FROM endpoint_secrets
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
    publicKey: row.public_key,
    encryptedSecret: row.encrypted_secret,
  }));
}

export interface NewSecretVersion extends EndpointSecretVersion {
  readonly sealedSecret: string;
  readonly sealedKey: string | null;
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
          (endpoint_id, version, tenant_id, secret, fingerprint, state, created_at, current_at, overlap_ends_at,
            signing_key, public_key, encrypted_secret)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
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
        version.sealedKey,
        version.publicKey,
        version.encryptedSecret,
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
            secret = CASE WHEN $4 = 'RETIRED' THEN '' ELSE secret END,
            signing_key = CASE WHEN $4 <> 'RETIRED' THEN signing_key END,
            encrypted_secret = CASE WHEN $4 <> 'RETIRED' THEN encrypted_secret END
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

/** Gives a version its Ed25519 keys, or takes them away. */
export async function setSigningKey(
  db: Queryable,
  { id, tenantId }: Pick<SecretHolder, "id" | "tenantId">,
  version: number,
  keys: { readonly sealedKey: string; readonly publicKey: string } | null,
): Promise<void> {
  await unlessFrozen(async () => {
    await db.query({
      name: "set-signing-key",
      text: `UPDATE endpoint_secrets SET signing_key = $4, public_key = $5
        WHERE endpoint_id = $1 AND tenant_id = $2 AND version = $3`,
      values: [id, tenantId, version, keys?.sealedKey ?? null, keys?.publicKey ?? null],
    });
  });
}

/** The current secret as it is kept. */
export async function loadCurrentSecret(
  db: Queryable,
  { id, tenantId }: Pick<SecretHolder, "id" | "tenantId">,
): Promise<{ readonly version: number; readonly sealed: string } | undefined> {
  const { rows } = await db.query<{ version: number; secret: string }>({
    name: "load-current-secret",
    text: `SELECT version, secret FROM endpoint_secrets
      WHERE endpoint_id = $1 AND tenant_id = $2 AND state = 'CURRENT'`,
    values: [id, tenantId],
  });
  return rows[0] === undefined ? undefined : { version: rows[0].version, sealed: rows[0].secret };
}

/** How an endpoint's secret is replaced without anybody asking. */
export async function saveRotationSchedule(
  db: Queryable,
  { id, tenantId, rotationDays, recipient }: Omit<SecretHolder, "heldAt">,
): Promise<void> {
  await db.query({
    name: "save-rotation-schedule",
    text: `UPDATE endpoints SET secret_rotation_days = $3, secret_recipient = $4
      WHERE id = $1 AND tenant_id = $2 AND state <> 'DELETED'`,
    values: [id, tenantId, rotationDays, recipient],
  });
}

/** A page of endpoints that are due for something, by id. */
export interface DuePage {
  readonly now: Date;
  /** The last id of the page before; empty for the first page. */
  readonly after: string;
  readonly limit: number;
}

/** Endpoints whose current secret is as old as they allow, and which do not rotate (role signet_worker). */
export async function findDueRotations(
  db: Queryable,
  { now, after, limit }: DuePage,
): Promise<{ readonly id: string; readonly tenantId: string }[]> {
  const { rows } = await db.query<{ id: string; tenant_id: string }>({
    name: "find-due-rotations",
    text: `SELECT e.id, e.tenant_id FROM endpoints e
      JOIN endpoint_secrets s ON s.endpoint_id = e.id AND s.state = 'CURRENT'
      JOIN tenants t ON t.id = e.tenant_id
      WHERE e.secret_rotation_days IS NOT NULL AND e.state <> 'DELETED' AND t.held_at IS NULL
        AND coalesce(s.current_at, s.created_at) + make_interval(days => e.secret_rotation_days) <= $1
        AND NOT EXISTS (SELECT FROM endpoint_secrets b WHERE b.endpoint_id = e.id AND b.state IN ('NEXT', 'PREVIOUS'))
        AND e.id > $3 ORDER BY e.id LIMIT $2`,
    values: [now, limit, after],
  });
  return rows.map((row) => ({ id: row.id, tenantId: row.tenant_id }));
}

/** Endpoints with a version whose time has come, of tenants that are not held (role signet_worker). */
export async function findDueMoves(
  db: Queryable,
  { now, after, limit }: DuePage,
): Promise<{ readonly id: string; readonly tenantId: string }[]> {
  const { rows } = await db.query<{ endpoint_id: string; tenant_id: string }>({
    name: "find-due-moves",
    text: `SELECT DISTINCT s.endpoint_id, s.tenant_id FROM endpoint_secrets s JOIN tenants t ON t.id = s.tenant_id
      WHERE s.state IN ('NEXT', 'PREVIOUS') AND t.held_at IS NULL
        AND CASE s.state WHEN 'NEXT' THEN s.current_at ELSE s.overlap_ends_at END <= $1
        AND s.endpoint_id > $3 ORDER BY s.endpoint_id LIMIT $2`,
    values: [now, limit, after],
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

/** A public key of an endpoint. */
export interface EndpointPublicKey {
  readonly endpointId: string;
  readonly version: number;
  /** `whpk_…` */
  readonly publicKey: string;
}

/**
 * Public keys that sign, signed a moment ago or will sign next, of one endpoint or of all endpoints of one tenant (role
 * signet_issuer, which sees nothing else of secrets).
 *
 * @param id of an endpoint or a tenant
 */
export async function findPublicKeys(
  db: Queryable,
  id: string,
  { now, limit }: { readonly now: Date; readonly limit: number },
): Promise<EndpointPublicKey[]> {
  const { rows } = await db.query<{ endpoint_id: string; version: number; public_key: string }>({
    name: "find-public-keys",
    text: `SELECT endpoint_id, version, public_key FROM endpoint_secrets
      WHERE (endpoint_id = $1 OR tenant_id = $1) AND public_key IS NOT NULL AND state <> 'RETIRED'
        AND (overlap_ends_at IS NULL OR overlap_ends_at > $2)
      ORDER BY endpoint_id, version DESC LIMIT $3`,
    values: [id, now, limit],
  });
  return rows.map((row) => ({
    endpointId: row.endpoint_id,
    version: row.version,
    publicKey: row.public_key,
  }));
}
