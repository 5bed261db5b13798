/** The keys that sign access tokens; private halves are envelopes of the key-encryption key. */
import type { Queryable } from "../pool.ts";

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
    `SELECT ${COLUMNS} FROM signing_keys WHERE state <> 'GONE' OR revoked_at >= $1 ORDER BY created_at, kid`,
    [revokedSince],
  );
  return rows;
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
