/** The keys that sign access tokens; private halves are envelopes of the key-encryption key. */
import type { Queryable } from "../../pool.ts";

/** Notified whenever a signing key is made or changed (migration 0006). */
export const SIGNING_KEYS_CHANNEL = "signet_signing_keys";

export type SigningAlgorithm = "ES256" | "RS256" | "Ed25519";

export interface NewSigningKey {
  readonly kid: string;
  readonly alg: SigningAlgorithm;
  readonly public_jwk: Readonly<Record<string, unknown>>;
  /** An envelope; empty once the key is gone. */
  readonly private_key: string;
}

export interface SigningKeyRow extends NewSigningKey {
  /** What has been carried out; what holds follows from the times (signing-keys/lifecycle.ts). */
  readonly state: "NEXT" | "CURRENT" | "PREVIOUS" | "GONE";
  readonly created_at: Date;
  /** When it begins to sign; may lie ahead. */
  readonly activated_at: Date;
  readonly retired_at: Date | null;
  readonly revoked_at: Date | null;
  readonly revocation_reason: string | null;
}

const COLUMNS = `kid, alg, public_jwk, private_key, state, created_at, activated_at, retired_at, revoked_at,
  revocation_reason`;

/** The keys that are not gone, and those that were revoked since: their tokens are still about. */
export async function listLiveKeys(db: Queryable, revokedSince: Date): Promise<SigningKeyRow[]> {
  const { rows } = await db.query<SigningKeyRow>(
    `SELECT ${COLUMNS} FROM signing_keys WHERE state <> 'GONE' OR revoked_at >= $1 ORDER BY activated_at, kid`,
    [revokedSince],
  );
  return rows;
}

/** A key without its private half, which role signet_edge cannot see. */
export type PublicKeyRow = Omit<SigningKeyRow, "private_key" | "created_at" | "revocation_reason">;

/** The same keys as {@link listLiveKeys} gives, without their private halves (role signet_edge). */
export async function listPublicKeys(db: Queryable, revokedSince: Date): Promise<PublicKeyRow[]> {
  const { rows } = await db.query<PublicKeyRow>(
    `SELECT kid, alg, public_jwk, state, activated_at, retired_at, revoked_at FROM signing_keys
      WHERE state <> 'GONE' OR revoked_at >= $1 ORDER BY activated_at, kid`,
    [revokedSince],
  );
  return rows;
}

/** The newest keys first, those that are gone among them. */
export async function listSigningKeys(db: Queryable, limit: number): Promise<SigningKeyRow[]> {
  const { rows } = await db.query<SigningKeyRow>(
    `SELECT ${COLUMNS} FROM signing_keys ORDER BY activated_at DESC, kid LIMIT $1`,
    [limit],
  );
  return rows;
}

/** The keys that are not gone, locked against whoever else would change keys until the transaction ends. */
export async function lockSigningKeys(db: Queryable): Promise<SigningKeyRow[]> {
  await db.query("LOCK TABLE signing_keys IN SHARE ROW EXCLUSIVE MODE");
  const { rows } = await db.query<SigningKeyRow>(
    `SELECT ${COLUMNS} FROM signing_keys WHERE state <> 'GONE' ORDER BY activated_at DESC, kid`,
  );
  return rows;
}

export async function findSigningKey(db: Queryable, kid: string): Promise<SigningKeyRow | undefined> {
  const { rows } = await db.query<SigningKeyRow>(`SELECT ${COLUMNS} FROM signing_keys WHERE kid = $1`, [kid]);
  return rows[0];
}

/** Whether there is a key to sign with. */
export async function hasCurrentKey(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query("SELECT FROM signing_keys WHERE state = 'CURRENT'");
  return rowCount === 1;
}

/**
 * Makes this key the signing key unless there is one: of several processes that try at once, one succeeds (unique
 * index signing_keys_one_current).
 */
export async function insertFirstKey(db: Queryable, key: NewSigningKey, nowMs: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `INSERT INTO signing_keys (kid, alg, public_jwk, private_key, state, created_at, activated_at)
     VALUES ($1, $2, $3, $4, 'CURRENT', $5, $5) ON CONFLICT DO NOTHING`,
    [key.kid, key.alg, JSON.stringify(key.public_jwk), key.private_key, new Date(nowMs)],
  );
  return rowCount === 1;
}

/** Adds a key that begins to sign at `activatedAt`. */
export async function insertNextKey(
  db: Queryable,
  key: NewSigningKey,
  { createdAt, activatedAt }: { readonly createdAt: Date; readonly activatedAt: Date },
): Promise<void> {
  await db.query(
    `INSERT INTO signing_keys (kid, alg, public_jwk, private_key, state, created_at, activated_at)
     VALUES ($1, $2, $3, $4, 'NEXT', $5, $6)`,
    [key.kid, key.alg, JSON.stringify(key.public_jwk), key.private_key, createdAt, activatedAt],
  );
}

/** A NEXT key becomes the one that signs. The one before must have been retired or revoked. */
export async function markCurrent(db: Queryable, kid: string, activatedAt: Date): Promise<void> {
  await db.query("UPDATE signing_keys SET state = 'CURRENT', activated_at = $2 WHERE kid = $1", [
    kid,
    activatedAt,
  ]);
}

/** A NEXT key begins at another time. */
export async function moveActivation(db: Queryable, kid: string, activatedAt: Date): Promise<void> {
  await db.query("UPDATE signing_keys SET activated_at = $2 WHERE kid = $1 AND state = 'NEXT'", [
    kid,
    activatedAt,
  ]);
}

/** The key does not sign any more; what it has signed is still good. */
export async function markPrevious(db: Queryable, kid: string, retiredAt: Date): Promise<void> {
  await db.query("UPDATE signing_keys SET state = 'PREVIOUS', retired_at = $2 WHERE kid = $1", [
    kid,
    retiredAt,
  ]);
}

/** The key is over: published no more, its private half erased. */
export async function markGone(db: Queryable, kid: string): Promise<void> {
  await db.query("UPDATE signing_keys SET state = 'GONE', private_key = '' WHERE kid = $1", [kid]);
}

/** The key and everything that it signed are good for nothing from this moment on. */
export async function markRevoked(
  db: Queryable,
  kid: string,
  { at, reason }: { readonly at: Date; readonly reason: string },
): Promise<SigningKeyRow | undefined> {
  const { rows } = await db.query<SigningKeyRow>(
    `UPDATE signing_keys SET state = 'GONE', private_key = '', revoked_at = $2, revocation_reason = $3,
            retired_at = coalesce(retired_at, $2)
      WHERE kid = $1 AND revoked_at IS NULL RETURNING ${COLUMNS}`,
    [kid, at, reason],
  );
  return rows[0];
}

/** Whether a signing key has, or ever had, this Ed25519 public key. */
export async function isSigningKey(db: Queryable, publicKey: Buffer): Promise<boolean> {
  const { rowCount } = await db.query(
    "SELECT FROM signing_keys WHERE public_jwk ->> 'crv' = 'Ed25519' AND public_jwk ->> 'x' = $1",
    [publicKey.toString("base64url")],
  );
  return rowCount !== 0;
}
