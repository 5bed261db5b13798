/** The keys that sign access tokens. Private halves are envelopes of the key-encryption key. */
import type { Queryable } from "../../pool.ts";

/** Channel that is notified whenever a signing key is created or changed (migration 0006). */
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
  /** The stored state. The effective one follows from the times (signing-keys/lifecycle.ts). */
  readonly state: "NEXT" | "CURRENT" | "PREVIOUS" | "GONE";
  readonly created_at: Date;
  /** When it begins to sign; may be in the future. */
  readonly activated_at: Date;
  readonly retired_at: Date | null;
  readonly revoked_at: Date | null;
  readonly revocation_reason: string | null;
}

const COLUMNS = `kid, alg, public_jwk, private_key, state, created_at, activated_at, retired_at, revoked_at,
  revocation_reason`;

/** Returns all keys that are not gone, and those revoked since `revokedSince`, whose tokens may still be in use. */
export async function listLiveKeys(db: Queryable, revokedSince: Date): Promise<SigningKeyRow[]> {
  const { rows } = await db.query<SigningKeyRow>(
    `SELECT ${COLUMNS} FROM signing_keys WHERE state <> 'GONE' OR revoked_at >= $1 ORDER BY activated_at, kid`,
    [revokedSince],
  );
  return rows;
}

/** A key without its private half, which role signet_edge cannot read. */
export type PublicKeyRow = Omit<SigningKeyRow, "private_key" | "created_at" | "revocation_reason">;

/** Returns the keys of {@link listLiveKeys} without their private halves (role signet_edge). */
export async function listPublicKeys(db: Queryable, revokedSince: Date): Promise<PublicKeyRow[]> {
  const { rows } = await db.query<PublicKeyRow>(
    `SELECT kid, alg, public_jwk, state, activated_at, retired_at, revoked_at FROM signing_keys
      WHERE state <> 'GONE' OR revoked_at >= $1 ORDER BY activated_at, kid`,
    [revokedSince],
  );
  return rows;
}

type KeyLine = readonly [
  kid: string,
  alg: SigningAlgorithm,
  jwk: PublicKeyRow["public_jwk"],
  state: PublicKeyRow["state"],
  activatedMs: number,
  retiredMs: number | null,
  revokedMs: number | null,
];

/** Reads the text of `verification_keys()`, which reaches processes without a database through hubs. */
export function readVerificationKeys(text: string): PublicKeyRow[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [kid, alg, jwk, state, activatedMs, retiredMs, revokedMs] = JSON.parse(line) as KeyLine;
      return {
        kid,
        alg,
        public_jwk: jwk,
        state,
        activated_at: new Date(activatedMs),
        retired_at: retiredMs === null ? null : new Date(retiredMs),
        revoked_at: revokedMs === null ? null : new Date(revokedMs),
      };
    });
}

/** Returns the public half of any key, even of one that is gone (role signet_issuer or signet_operator). */
export async function findPublicKey(
  db: Queryable,
  kid: string,
): Promise<Pick<SigningKeyRow, "kid" | "alg" | "public_jwk"> | undefined> {
  const { rows } = await db.query<Pick<SigningKeyRow, "kid" | "alg" | "public_jwk">>(
    "SELECT kid, alg, public_jwk FROM signing_keys WHERE kid = $1",
    [kid],
  );
  return rows[0];
}

/** Returns keys, newest first, including those that are gone. */
export async function listSigningKeys(db: Queryable, limit: number): Promise<SigningKeyRow[]> {
  const { rows } = await db.query<SigningKeyRow>(
    `SELECT ${COLUMNS} FROM signing_keys ORDER BY activated_at DESC, kid LIMIT $1`,
    [limit],
  );
  return rows;
}

/** Locks the keys against changes until the transaction ends. Returns those that are not gone. */
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

/** Whether there is a current signing key. */
export async function hasCurrentKey(db: Queryable): Promise<boolean> {
  const { rowCount } = await db.query("SELECT FROM signing_keys WHERE state = 'CURRENT'");
  return rowCount === 1;
}

/**
 * Makes this key the signing key unless there is one. Of several concurrent processes, one succeeds (unique index
 * signing_keys_one_current).
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

/** Makes a NEXT key the current one. The previous one must be retired or revoked. */
export async function markCurrent(db: Queryable, kid: string, activatedAt: Date): Promise<void> {
  await db.query("UPDATE signing_keys SET state = 'CURRENT', activated_at = $2 WHERE kid = $1", [
    kid,
    activatedAt,
  ]);
}

/** Changes when a NEXT key begins to sign. */
export async function moveActivation(db: Queryable, kid: string, activatedAt: Date): Promise<void> {
  await db.query("UPDATE signing_keys SET activated_at = $2 WHERE kid = $1 AND state = 'NEXT'", [
    kid,
    activatedAt,
  ]);
}

/** Stops a key from signing. Its tokens stay valid. */
export async function markPrevious(db: Queryable, kid: string, retiredAt: Date): Promise<void> {
  await db.query("UPDATE signing_keys SET state = 'PREVIOUS', retired_at = $2 WHERE kid = $1", [
    kid,
    retiredAt,
  ]);
}

/** Removes a key from publication and erases its private half. */
export async function markGone(db: Queryable, kid: string): Promise<void> {
  await db.query("UPDATE signing_keys SET state = 'GONE', private_key = '' WHERE kid = $1", [kid]);
}

/** Revokes a key. Every token that it signed becomes invalid. */
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

/** Whether any signing key, past or present, has this Ed25519 public key. */
export async function isSigningKey(db: Queryable, publicKey: Buffer): Promise<boolean> {
  const { rowCount } = await db.query(
    "SELECT FROM signing_keys WHERE public_jwk ->> 'crv' = 'Ed25519' AND public_jwk ->> 'x' = $1",
    [publicKey.toString("base64url")],
  );
  return rowCount !== 0;
}
