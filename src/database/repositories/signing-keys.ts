/** The keys that sign access tokens; private halves are envelopes of the key-encryption key. */
import type { Queryable } from "../pool.ts";

export type SigningAlgorithm = "ES256" | "RS256" | "Ed25519";

export interface SigningKeyRow {
  readonly kid: string;
  readonly alg: SigningAlgorithm;
  readonly public_jwk: Readonly<Record<string, unknown>>;
  readonly private_key: string;
  readonly state: "NEXT" | "CURRENT" | "PREVIOUS";
}

/** The keys that verifiers must know, the signing one among them. */
export async function listPublishedKeys(db: Queryable): Promise<SigningKeyRow[]> {
  const { rows } = await db.query<SigningKeyRow>(
    `SELECT kid, alg, public_jwk, private_key, state FROM signing_keys WHERE state <> 'GONE' ORDER BY created_at, kid`,
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
export async function insertFirstKey(
  db: Queryable,
  key: Omit<SigningKeyRow, "state">,
  nowMs: number,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `INSERT INTO signing_keys (kid, alg, public_jwk, private_key, state, created_at, activated_at)
     VALUES ($1, $2, $3, $4, 'CURRENT', $5, $5) ON CONFLICT DO NOTHING`,
    [key.kid, key.alg, JSON.stringify(key.public_jwk), key.private_key, new Date(nowMs)],
  );
  return rowCount === 1;
}
