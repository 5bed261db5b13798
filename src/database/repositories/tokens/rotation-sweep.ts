/** Queries of the rotation sweep (role signet_rotator). All times come from the caller. */
import {
  OVERDUE_MS,
  type Retirement,
  type RotationRules,
  type SecretVersionState,
} from "#domain/secret-version.ts";
import type { Queryable } from "#database/pool.ts";

/** A version with something to report. */
export interface SweptVersion {
  readonly credential_id: string;
  readonly version: number;
  readonly tenant_id: string;
}

/** Concurrent sweeps never take the same rows. */
const TAKEN = "FOR UPDATE OF v SKIP LOCKED";
const IS_CHOSEN = "v.credential_id = chosen.credential_id AND v.version = chosen.version";

/** Takes up to `limit` due versions that were not reported yet, and marks them as reported. */
export async function takeDue(db: Queryable, nowMs: number, limit: number): Promise<SweptVersion[]> {
  const { rows } = await db.query<SweptVersion>(
    `WITH chosen AS (
       SELECT v.credential_id, v.version FROM secret_versions v JOIN credentials c ON c.id = v.credential_id
        WHERE v.state = 'ACTIVE' AND v.due_at <= $1 AND v.due_reported_at IS NULL
          AND c.state = 'ACTIVE' AND c.rotation_mode = 'in_band'
        ORDER BY v.due_at LIMIT $2 ${TAKEN}
     )
     UPDATE secret_versions v
        SET due_reported_at = $1, next_alert_at = v.due_at + $3::float8 * interval '1 millisecond'
       FROM chosen WHERE ${IS_CHOSEN} RETURNING v.credential_id, v.version, v.tenant_id`,
    [new Date(nowMs), limit, OVERDUE_MS],
  );
  return rows;
}

/** An ended version, with the times that explain it. */
export interface EndedVersion extends SweptVersion {
  readonly state: SecretVersionState;
  readonly issued_at: Date;
  readonly retire_by: Date | null;
  readonly superseded_at: Date | null;
  readonly last_used_at: Date | null;
  /** Whether its credential has a certificate that allows a rescue. */
  readonly names_certificate: boolean;
}

const NAMES_CERTIFICATE = "(c.san_uri IS NOT NULL OR cardinality(c.certificate_thumbprints) > 0)";

/** Locks up to `limit` versions that have ended but are not stored as ended. */
export async function takeEnded(
  db: Queryable,
  { nowMs, quietMs }: { readonly nowMs: number } & Pick<RotationRules, "quietMs">,
  limit: number,
): Promise<EndedVersion[]> {
  const { rows } = await db.query<EndedVersion>(
    `SELECT v.credential_id, v.version, v.tenant_id, v.state, v.issued_at, v.retire_by, v.superseded_at, v.last_used_at,
            ${NAMES_CERTIFICATE} AS names_certificate
       FROM secret_versions v JOIN credentials c ON c.id = v.credential_id
      WHERE (v.state = 'RETIRING'
             AND (v.retire_by <= $1 OR greatest(coalesce(v.superseded_at, v.issued_at), v.last_used_at) <= $2))
         OR (v.state = 'ACTIVE' AND v.retire_by <= $1 AND NOT ${NAMES_CERTIFICATE})
      LIMIT $3 ${TAKEN}`,
    [new Date(nowMs), new Date(nowMs - quietMs), limit],
  );
  return rows;
}

/** Stores versions as ended. If a version cannot be rescued, erases its successor's secret. */
export async function retireVersions(
  db: Queryable,
  ended: readonly (EndedVersion & { readonly retirement: Retirement })[],
): Promise<void> {
  await db.query(
    `UPDATE secret_versions v
        SET state = 'RETIRED', retired_at = chosen.at, retired_reason = chosen.reason, rescue_ended = NOT chosen.rescuable
       FROM unnest($1::text[], $2::int[], $3::timestamptz[], $4::text[], $5::bool[])
            AS chosen (credential_id, version, at, reason, rescuable)
      WHERE ${IS_CHOSEN}`,
    [
      ended.map((version) => version.credential_id),
      ended.map((version) => version.version),
      ended.map(({ retirement }) => new Date(retirement.at)),
      ended.map(({ retirement }) => retirement.reason),
      ended.map((version) => version.names_certificate),
    ],
  );
  await eraseSuccessors(
    db,
    ended.filter((version) => !version.names_certificate),
  );
}

async function eraseSuccessors(db: Queryable, predecessors: readonly SweptVersion[]): Promise<void> {
  await db.query(
    `UPDATE secret_versions v SET wrapped = NULL
       FROM unnest($1::text[], $2::int[]) AS chosen (credential_id, version)
      WHERE ${IS_CHOSEN} AND v.wrapped IS NOT NULL`,
    [predecessors.map((key) => key.credential_id), predecessors.map((key) => key.version + 1)],
  );
}

/** Ends the rescue of up to `limit` versions that were unused for that long, and erases their successors' secrets. */
export async function endRescues(
  db: Queryable,
  { nowMs, rescueMs }: { readonly nowMs: number } & Pick<RotationRules, "rescueMs">,
  limit: number,
): Promise<SweptVersion[]> {
  const { rows } = await db.query<SweptVersion>(
    `WITH chosen AS (
       SELECT v.credential_id, v.version FROM secret_versions v
        WHERE v.state = 'RETIRED' AND NOT v.rescue_ended AND v.retired_reason = 'quiet'
          AND greatest(v.retired_at, v.last_used_at) <= $1
        LIMIT $2 ${TAKEN}
     )
     UPDATE secret_versions v SET rescue_ended = true FROM chosen
      WHERE ${IS_CHOSEN} RETURNING v.credential_id, v.version, v.tenant_id`,
    [new Date(nowMs - rescueMs), limit],
  );
  await eraseSuccessors(db, rows);
  return rows;
}

/** Takes up to `limit` successors with unreported deliveries, each at most once per `everyMs`. */
export async function takeDeliveries(
  db: Queryable,
  { nowMs, everyMs }: { readonly nowMs: number; readonly everyMs: number },
  limit: number,
): Promise<(SweptVersion & { readonly delivered_count: number })[]> {
  const { rows } = await db.query<SweptVersion & { readonly delivered_count: number }>(
    `WITH chosen AS (
       SELECT v.credential_id, v.version FROM secret_versions v
        WHERE v.delivered_count > v.delivered_reported
          AND (v.delivered_reported_at IS NULL OR v.delivered_reported_at <= $2)
        LIMIT $3 ${TAKEN}
     )
     UPDATE secret_versions v SET delivered_reported = v.delivered_count, delivered_reported_at = $1 FROM chosen
      WHERE ${IS_CHOSEN} RETURNING v.credential_id, v.version, v.tenant_id, v.delivered_count`,
    [new Date(nowMs), new Date(nowMs - everyMs), limit],
  );
  return rows;
}

/** Locks up to `limit` versions with a due alert. */
export async function takeOverdue(
  db: Queryable,
  nowMs: number,
  limit: number,
): Promise<(SweptVersion & { readonly due_at: Date })[]> {
  const { rows } = await db.query<SweptVersion & { readonly due_at: Date }>(
    `SELECT v.credential_id, v.version, v.tenant_id, v.due_at FROM secret_versions v
      WHERE v.state = 'ACTIVE' AND v.next_alert_at <= $1 ORDER BY v.next_alert_at LIMIT $2 ${TAKEN}`,
    [new Date(nowMs), limit],
  );
  return rows;
}

/** Sets the times of the next alerts. */
export async function setNextAlerts(
  db: Queryable,
  alerts: readonly (SweptVersion & { readonly nextAlertAt: number })[],
): Promise<void> {
  await db.query(
    `UPDATE secret_versions v SET next_alert_at = chosen.at
       FROM unnest($1::text[], $2::int[], $3::timestamptz[]) AS chosen (credential_id, version, at) WHERE ${IS_CHOSEN}`,
    [
      alerts.map((alert) => alert.credential_id),
      alerts.map((alert) => alert.version),
      alerts.map((alert) => new Date(alert.nextAlertAt)),
    ],
  );
}

/** Returns how many credentials have been due for a week or more. */
export async function countOverdue(db: Queryable, nowMs: number): Promise<number> {
  const { rows } = await db.query<{ overdue: number }>(
    `SELECT count(*) AS overdue FROM secret_versions v JOIN credentials c ON c.id = v.credential_id
      WHERE v.state = 'ACTIVE' AND v.due_at <= $1 AND c.state = 'ACTIVE' AND c.rotation_mode = 'in_band'`,
    [new Date(nowMs - OVERDUE_MS)],
  );
  return rows[0]?.overdue ?? 0;
}

/** A replaced credential that has ended. */
export interface EndedCredential {
  readonly id: string;
  readonly tenant_id: string;
  readonly ends_at: Date;
}

/** Stores up to `limit` replaced credentials as ended, and returns them. */
export async function endReplaced(db: Queryable, nowMs: number, limit: number): Promise<EndedCredential[]> {
  const { rows } = await db.query<EndedCredential>(
    `UPDATE credentials SET state = 'REVOKED', revoked_at = ends_at WHERE id IN (
       SELECT id FROM credentials WHERE state = 'ACTIVE' AND ends_at <= $1 ORDER BY ends_at LIMIT $2
          FOR UPDATE SKIP LOCKED
     ) RETURNING id, tenant_id, ends_at`,
    [new Date(nowMs), limit],
  );
  return rows;
}

/** Stores the indexes of the entries about the ends of credentials. */
export async function setEndIndexes(
  db: Queryable,
  ends: readonly { readonly id: string; readonly index: number }[],
): Promise<void> {
  await db.query(
    `UPDATE credentials c SET end_index = chosen.index
       FROM unnest($1::text[], $2::bigint[]) AS chosen (id, index) WHERE c.id = chosen.id`,
    [ends.map(({ id }) => id), ends.map(({ index }) => index)],
  );
}
