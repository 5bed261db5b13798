/** Sessions of operators' browsers, by the hash of the browser's secret (role signet_operator). */
import type { OperatorRole } from "#domain/operator-roles.ts";
import type { Queryable } from "#database/pool.ts";
import { sql } from "#database/sql.ts";

export interface NewOperatorSession {
  /** SHA-256 of the browser's secret. */
  readonly hash: Buffer;
  /** The operator's id, or `bootstrap`. */
  readonly operator_id: string;
  /** The token that signed in; null for a certificate and for the bootstrap token. */
  readonly token_id: string | null;
  /** SHA-256 of the certificate that signed in, which each request must present. */
  readonly certificate: string | null;
  /** SHA-256 of the bootstrap token that signed in. */
  readonly bootstrap_hash: Buffer | null;
  readonly created_at: Date;
  readonly expires_at: Date;
}

/** A session with what decides whether it is valid. */
export interface StoredOperatorSession extends NewOperatorSession {
  /** Null for the bootstrap operator. */
  readonly role: OperatorRole | null;
  readonly operator_name: string | null;
  readonly viewed: string | null;
  readonly viewed_name: string | null;
}

/** Inserts a session. Removes expired ones, and the operator's oldest beyond `max`. */
export async function insertOperatorSession(
  db: Queryable,
  session: NewOperatorSession,
  max: number,
): Promise<void> {
  const { operator_id: operatorId, created_at: createdAt } = session;
  await db.query("DELETE FROM operator_sessions WHERE expires_at <= $1", [createdAt]);
  await db.query(
    `DELETE FROM operator_sessions WHERE hash IN (
       SELECT hash FROM operator_sessions WHERE operator_id = $1 ORDER BY created_at DESC, hash OFFSET $2)`,
    [operatorId, max - 1],
  );
  await db.query(
    sql`INSERT INTO operator_sessions (hash, operator_id, token_id, certificate, bootstrap_hash, created_at, expires_at)
      VALUES (${session.hash}, ${operatorId}, ${session.token_id}, ${session.certificate}, ${session.bootstrap_hash},
        ${createdAt}, ${session.expires_at})`,
  );
}

/** Returns a session whose operator and token are valid. */
export async function findOperatorSession(
  db: Queryable,
  hash: Buffer,
  now: Date,
): Promise<StoredOperatorSession | undefined> {
  const { rows } = await db.query<StoredOperatorSession>({
    name: "find-operator-session",
    text: `SELECT s.hash, s.operator_id, s.token_id, s.certificate,
        s.bootstrap_hash, s.viewed, s.created_at, s.expires_at,
        o.role, o.name AS operator_name, t.name AS viewed_name
      FROM operator_sessions s
      LEFT JOIN operators o ON o.id = s.operator_id AND o.state = 'ACTIVE'
      LEFT JOIN operator_tokens k ON k.id = s.token_id AND k.revoked_at IS NULL AND k.expires_at > $2
      LEFT JOIN tenants t ON t.id = s.viewed
      WHERE s.hash = $1 AND s.expires_at > $2 AND s.created_at <= $2::timestamptz + interval '1 minute'
        AND (s.bootstrap_hash IS NOT NULL OR (o.id IS NOT NULL AND (k.id IS NOT NULL OR s.certificate IS NOT NULL)))`,
    values: [hash, now],
  });
  return rows[0];
}

/** Sets the tenant that a session views; null for none. */
export async function setViewedTenant(db: Queryable, hash: Buffer, tenantId: string | null): Promise<void> {
  await db.query("UPDATE operator_sessions SET viewed = $2 WHERE hash = $1", [hash, tenantId]);
}

export async function deleteOperatorSession(db: Queryable, hash: Buffer): Promise<void> {
  await db.query("DELETE FROM operator_sessions WHERE hash = $1", [hash]);
}
