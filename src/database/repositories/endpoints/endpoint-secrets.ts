/** The versions of endpoints' secrets: their states and transitions. */
import type { SecretVersion } from "#domain/endpoint-secrets.ts";
import type { Queryable } from "#database/pool.ts";
import { sql } from "#database/sql.ts";
import { unlessHeld } from "./unless-held.ts";

export interface EndpointSecretVersion extends SecretVersion {
  /** The first 8 hex digits of the secret's SHA-256. */
  readonly fingerprint: string;
  /** Ed25519, `whpk_…`; null if the endpoint has not requested such signatures. */
  readonly publicKey: string | null;
  /** The secret, encrypted to the tenant's own key; only of versions created on schedule. */
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

/** An endpoint with its rotation settings. */
export interface SecretHolder {
  readonly id: string;
  readonly tenantId: string;
  /** When the tenant's hold began; null without one. During a hold, secrets do not change. */
  readonly heldAt: Date | null;
  readonly rotationDays: number | null;
  /** A public JWK in JSON. */
  readonly recipient: string | null;
}

/** Maximum number of versions returned. Ended versions remain as rows without a value. */
const VERSIONS_MAX = 100;

/** Returns undefined if there is no such endpoint. */
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
    ...sql`SELECT t.held_at, e.secret_rotation_days, e.secret_recipient FROM endpoints e JOIN tenants t ON t.id = e.tenant_id
      WHERE e.id = ${id} AND e.tenant_id = ${tenantId} AND e.state <> 'DELETED'`,
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

/**
 * Like {@link findSecretHolder}, but locks the endpoint's row against concurrent changes of its secrets and deletion.
 */
export async function lockSecretHolder(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<SecretHolder | undefined> {
  const { rowCount } = await db.query({
    name: "lock-secret-holder",
    ...sql`SELECT FROM endpoints WHERE id = ${id} AND tenant_id = ${tenantId} AND state <> 'DELETED' FOR NO KEY UPDATE`,
  });
  return rowCount === 1 ? await findSecretHolder(db, tenantId, id) : undefined;
}

/** Returns the stored versions, newest first. */
export async function listSecretVersions(
  db: Queryable,
  { id, tenantId }: Pick<SecretHolder, "id" | "tenantId">,
): Promise<EndpointSecretVersion[]> {
  const { rows } = await db.query<VersionRow>({
    name: "list-secret-versions",
    ...sql`SELECT version, state, fingerprint, created_at, current_at, overlap_ends_at, retired_at,
        public_key, encrypted_secret FROM endpoint_secrets
      WHERE endpoint_id = ${id} AND tenant_id = ${tenantId} ORDER BY version DESC LIMIT ${VERSIONS_MAX}`,
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

/** @throws SignetError `INVALID_STATE` if the tenant is on hold */
export async function insertSecretVersion(
  db: Queryable,
  { id, tenantId }: Pick<SecretHolder, "id" | "tenantId">,
  version: NewSecretVersion,
): Promise<void> {
  await unlessHeld("secrets", async () => {
    await db.query({
      name: "insert-secret-version",
      ...sql`INSERT INTO endpoint_secrets
          (endpoint_id, version, tenant_id, secret, fingerprint, state, created_at, current_at, overlap_ends_at,
            signing_key, public_key, encrypted_secret)
        VALUES (${id}, ${version.version}, ${tenantId}, ${version.sealedSecret}, ${version.fingerprint}, ${version.state},
          ${version.createdAt}, ${version.currentAt}, ${version.overlapEndsAt}, ${version.sealedKey}, ${version.publicKey},
          ${version.encryptedSecret})`,
    });
  });
}

/** Each of these states is unique per endpoint, so versions must leave a state before another enters it. */
const WRITE_ORDER = ["RETIRED", "PREVIOUS", "CURRENT", "NEXT"] as const;

/**
 * Stores the states of versions. Erases the values of ended ones.
 *
 * @throws SignetError `INVALID_STATE` if the tenant is on hold
 */
export async function moveSecretVersions(
  db: Queryable,
  { id, tenantId }: Pick<SecretHolder, "id" | "tenantId">,
  versions: readonly EndpointSecretVersion[],
): Promise<void> {
  for (const { version, state, currentAt, overlapEndsAt, retiredAt } of versions.toSorted(
    (left, right) => WRITE_ORDER.indexOf(left.state) - WRITE_ORDER.indexOf(right.state),
  )) {
    await unlessHeld("secrets", async () => {
      await db.query({
        name: "move-secret-version",
        ...sql`UPDATE endpoint_secrets SET state = ${state}, current_at = ${currentAt}, overlap_ends_at = ${overlapEndsAt}, retired_at = ${retiredAt},
            secret = CASE WHEN ${state} = 'RETIRED' THEN '' ELSE secret END,
            signing_key = CASE WHEN ${state} <> 'RETIRED' THEN signing_key END,
            encrypted_secret = CASE WHEN ${state} <> 'RETIRED' THEN encrypted_secret END
          WHERE endpoint_id = ${id} AND tenant_id = ${tenantId} AND version = ${version}`,
      });
    });
  }
}

/** Sets or removes a version's Ed25519 keys. */
export async function setSigningKey(
  db: Queryable,
  { id, tenantId }: Pick<SecretHolder, "id" | "tenantId">,
  version: number,
  keys: { readonly sealedKey: string; readonly publicKey: string } | null,
): Promise<void> {
  await unlessHeld("secrets", async () => {
    await db.query({
      name: "set-signing-key",
      ...sql`UPDATE endpoint_secrets SET signing_key = ${keys?.sealedKey ?? null}, public_key = ${keys?.publicKey ?? null}
        WHERE endpoint_id = ${id} AND tenant_id = ${tenantId} AND version = ${version}`,
    });
  });
}

/** Returns the current secret, sealed. */
export async function loadCurrentSecret(
  db: Queryable,
  { id, tenantId }: Pick<SecretHolder, "id" | "tenantId">,
): Promise<{ readonly version: number; readonly sealed: string } | undefined> {
  const { rows } = await db.query<{ version: number; secret: string }>({
    name: "load-current-secret",
    ...sql`SELECT version, secret FROM endpoint_secrets
      WHERE endpoint_id = ${id} AND tenant_id = ${tenantId} AND state = 'CURRENT'`,
  });
  return rows[0] === undefined ? undefined : { version: rows[0].version, sealed: rows[0].secret };
}

/** Stores the schedule on which an endpoint's secret is rotated. */
export async function saveRotationSchedule(
  db: Queryable,
  { id, tenantId, rotationDays, recipient }: Omit<SecretHolder, "heldAt">,
): Promise<void> {
  await db.query({
    name: "save-rotation-schedule",
    ...sql`UPDATE endpoints SET secret_rotation_days = ${rotationDays}, secret_recipient = ${recipient}
      WHERE id = ${id} AND tenant_id = ${tenantId} AND state <> 'DELETED'`,
  });
}

/** A page of endpoints with due work, by id. */
export interface DuePage {
  readonly now: Date;
  /** Last id of the previous page; empty for the first page. */
  readonly after: string;
  readonly limit: number;
}

/** Returns endpoints whose current secret has reached its maximum age and is not rotating (role signet_worker). */
export async function findDueRotations(
  db: Queryable,
  { now, after, limit }: DuePage,
): Promise<{ readonly id: string; readonly tenantId: string }[]> {
  const { rows } = await db.query<{ id: string; tenant_id: string }>({
    name: "find-due-rotations",
    ...sql`SELECT e.id, e.tenant_id FROM endpoints e
      JOIN endpoint_secrets s ON s.endpoint_id = e.id AND s.state = 'CURRENT'
      JOIN tenants t ON t.id = e.tenant_id
      WHERE e.secret_rotation_days IS NOT NULL AND e.state <> 'DELETED' AND t.held_at IS NULL
        AND coalesce(s.current_at, s.created_at) + make_interval(days => e.secret_rotation_days) <= ${now}
        AND NOT EXISTS (SELECT FROM endpoint_secrets b WHERE b.endpoint_id = e.id AND b.state IN ('NEXT', 'PREVIOUS'))
        AND e.id > ${after} ORDER BY e.id LIMIT ${limit}`,
  });
  return rows.map((row) => ({ id: row.id, tenantId: row.tenant_id }));
}

/** Returns endpoints with a version due for its next state, without those on hold (role signet_worker). */
export async function findDueMoves(
  db: Queryable,
  { now, after, limit }: DuePage,
): Promise<{ readonly id: string; readonly tenantId: string }[]> {
  const { rows } = await db.query<{ endpoint_id: string; tenant_id: string }>({
    name: "find-due-moves",
    ...sql`SELECT DISTINCT s.endpoint_id, s.tenant_id FROM endpoint_secrets s JOIN tenants t ON t.id = s.tenant_id
      WHERE s.state IN ('NEXT', 'PREVIOUS') AND t.held_at IS NULL
        AND CASE s.state WHEN 'NEXT' THEN s.current_at ELSE s.overlap_ends_at END <= ${now}
        AND s.endpoint_id > ${after} ORDER BY s.endpoint_id LIMIT ${limit}`,
  });
  return rows.map((row) => ({ id: row.endpoint_id, tenantId: row.tenant_id }));
}

/** Postpones transitions that were pending when the hold began by the length of the hold (role signet_operator). */
export async function postponeMoves(
  db: Queryable,
  tenantId: string,
  { heldAt, releasedAt }: { readonly heldAt: Date; readonly releasedAt: Date },
): Promise<void> {
  await db.query({
    name: "postpone-moves",
    ...sql`UPDATE endpoint_secrets SET
        current_at = CASE WHEN state = 'NEXT' AND current_at > ${heldAt} THEN current_at + (${releasedAt}::timestamptz - ${heldAt}::timestamptz) ELSE current_at END,
        overlap_ends_at = CASE WHEN overlap_ends_at > ${heldAt} THEN overlap_ends_at + (${releasedAt}::timestamptz - ${heldAt}::timestamptz) ELSE overlap_ends_at END
      WHERE tenant_id = ${tenantId} AND state IN ('NEXT', 'PREVIOUS')`,
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
 * Returns public keys that sign now, signed recently or will sign next, of one endpoint or of all endpoints of a tenant
 * (role signet_issuer, which sees nothing else of secrets).
 *
 * @param id id of an endpoint or a tenant
 */
export async function findPublicKeys(
  db: Queryable,
  id: string,
  { now, limit }: { readonly now: Date; readonly limit: number },
): Promise<EndpointPublicKey[]> {
  const { rows } = await db.query<{ endpoint_id: string; version: number; public_key: string }>({
    name: "find-public-keys",
    ...sql`SELECT endpoint_id, version, public_key FROM endpoint_secrets
      WHERE (endpoint_id = ${id} OR tenant_id = ${id}) AND public_key IS NOT NULL AND state <> 'RETIRED'
        AND (overlap_ends_at IS NULL OR overlap_ends_at > ${now})
      ORDER BY endpoint_id, version DESC LIMIT ${limit}`,
  });
  return rows.map((row) => ({
    endpointId: row.endpoint_id,
    version: row.version,
    publicKey: row.public_key,
  }));
}
