/** The keys that sign tokens. Private halves are envelopes of the key-encryption key. */
import type { Queryable } from "#database/pool.ts";

/** Channel that is notified whenever a signing key is created or changed (migration 0006). */
export const SIGNING_KEYS_CHANNEL = "signet_signing_keys";

export type SigningAlgorithm = "ES256" | "RS256" | "Ed25519";

/** What a key signs: access tokens and status lists, or security event tokens (SET). It never changes. */
export const KEY_PURPOSES = ["access", "set"] as const;
export type KeyPurpose = (typeof KEY_PURPOSES)[number];

export interface NewSigningKey {
  readonly kid: string;
  readonly alg: SigningAlgorithm;
  readonly public_jwk: Readonly<Record<string, unknown>>;
  /** An envelope; empty once the key is gone. */
  readonly private_key: string;
}

export interface SigningKeyRow extends NewSigningKey {
  readonly purpose: KeyPurpose;
  /** The stored state. The effective one follows from the times (signing-keys/lifecycle.ts). */
  readonly state: "NEXT" | "CURRENT" | "PREVIOUS" | "GONE";
  readonly created_at: Date;
  /** When it begins to sign; may be in the future. */
  readonly activated_at: Date;
  readonly retired_at: Date | null;
  readonly revoked_at: Date | null;
  readonly revocation_reason: string | null;
}

/** Columns of a key's life. Those of a key of purpose set are hidden from version 0.3.0 (migration 0065). */
const LIFE = {
  access: { state: "state", activatedAt: "activated_at", retiredAt: "retired_at" },
  set: { state: "set_state", activatedAt: "set_activated_at", retiredAt: "set_retired_at" },
} as const satisfies Record<KeyPurpose, Readonly<Record<"state" | "activatedAt" | "retiredAt", string>>>;

function ofPurpose(column: keyof (typeof LIFE)["access"]): string {
  return `CASE purpose WHEN 'set' THEN ${LIFE.set[column]} ELSE ${LIFE.access[column]} END AS ${LIFE.access[column]}`;
}

const COLUMNS = `kid, alg, public_jwk, private_key, purpose, ${ofPurpose("state")}, created_at,
  ${ofPurpose("activatedAt")}, ${ofPurpose("retiredAt")}, revoked_at, revocation_reason`;

/**
 * Returns the keys of a purpose that are not gone, and those revoked since `revokedSince`, whose tokens may still be in
 * use (role signet_issuer, or signet_worker for purpose set).
 */
export async function listLiveKeys(
  db: Queryable,
  purpose: KeyPurpose,
  revokedSince: Date,
): Promise<SigningKeyRow[]> {
  const { rows } = await db.query<SigningKeyRow>(
    `SELECT ${COLUMNS} FROM signing_keys WHERE purpose = $1 AND (state <> 'GONE' OR revoked_at >= $2)
      ORDER BY activated_at, kid`,
    [purpose, revokedSince],
  );
  return rows;
}

/** A key without its private half, which role signet_edge cannot read. */
export type PublicKeyRow = Omit<
  SigningKeyRow,
  "private_key" | "purpose" | "created_at" | "revocation_reason"
>;

/**
 * Returns the keys of access tokens as {@link listLiveKeys} does, without their private halves. Role signet_edge, for
 * which row-level security hides the keys of other purposes.
 */
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

/** Returns the public half of any key of access tokens, even of one that is gone (role signet_issuer or signet_operator). */
export async function findPublicKey(
  db: Queryable,
  kid: string,
): Promise<Pick<SigningKeyRow, "kid" | "alg" | "public_jwk"> | undefined> {
  const { rows } = await db.query<Pick<SigningKeyRow, "kid" | "alg" | "public_jwk">>(
    "SELECT kid, alg, public_jwk FROM signing_keys WHERE kid = $1 AND purpose = 'access'",
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

/** Locks the keys against changes until the transaction ends. Returns those of a purpose that are not gone. */
export async function lockSigningKeys(db: Queryable, purpose: KeyPurpose): Promise<SigningKeyRow[]> {
  await db.query("LOCK TABLE signing_keys IN SHARE ROW EXCLUSIVE MODE");
  const { rows } = await db.query<SigningKeyRow>(
    `SELECT ${COLUMNS} FROM signing_keys WHERE purpose = $1 AND state <> 'GONE' ORDER BY activated_at DESC, kid`,
    [purpose],
  );
  return rows;
}

export async function findSigningKey(db: Queryable, kid: string): Promise<SigningKeyRow | undefined> {
  const { rows } = await db.query<SigningKeyRow>(`SELECT ${COLUMNS} FROM signing_keys WHERE kid = $1`, [kid]);
  return rows[0];
}

/** Whether there is a current signing key of a purpose. */
export async function hasCurrentKey(db: Queryable, purpose: KeyPurpose): Promise<boolean> {
  const { rowCount } = await db.query(
    `SELECT FROM signing_keys WHERE purpose = $1 AND ${LIFE[purpose].state} = 'CURRENT'`,
    [purpose],
  );
  return rowCount === 1;
}

/** Times of a new key. */
interface NewLife {
  readonly createdAt: Date;
  readonly activatedAt: Date;
}

function insertion(purpose: KeyPurpose, state: "CURRENT" | "NEXT"): string {
  const life = LIFE[purpose];
  return `INSERT INTO signing_keys (kid, alg, public_jwk, private_key, purpose, ${life.state}, created_at, ${life.activatedAt})
     VALUES ($1, $2, $3, $4, '${purpose}', '${state}', $5, $6)`;
}

function valuesOf(key: NewSigningKey, { createdAt, activatedAt }: NewLife): unknown[] {
  return [key.kid, key.alg, JSON.stringify(key.public_jwk), key.private_key, createdAt, activatedAt];
}

/**
 * Makes this key the signing key of a purpose unless there is one. Of several concurrent processes, one succeeds (unique
 * indexes signing_keys_one_current and signing_keys_one_current_set).
 */
export async function insertFirstKey(
  db: Queryable,
  purpose: KeyPurpose,
  key: NewSigningKey,
  nowMs: number,
): Promise<boolean> {
  const now = new Date(nowMs);
  const { rowCount } = await db.query(
    `${insertion(purpose, "CURRENT")} ON CONFLICT DO NOTHING`,
    valuesOf(key, { createdAt: now, activatedAt: now }),
  );
  return rowCount === 1;
}

/** Adds a key that begins to sign at `activatedAt`. */
export async function insertNextKey(
  db: Queryable,
  purpose: KeyPurpose,
  key: NewSigningKey,
  life: NewLife,
): Promise<void> {
  await db.query(insertion(purpose, "NEXT"), valuesOf(key, life));
}

/** A stored key. */
type KeyName = Pick<SigningKeyRow, "kid" | "purpose">;

/** Makes a NEXT key the current one. The previous one must be retired or revoked. */
export async function markCurrent(
  db: Queryable,
  { kid, purpose }: KeyName,
  activatedAt: Date,
): Promise<void> {
  const life = LIFE[purpose];
  await db.query(
    `UPDATE signing_keys SET ${life.state} = 'CURRENT', ${life.activatedAt} = $2 WHERE kid = $1`,
    [kid, activatedAt],
  );
}

/** Changes when a NEXT key begins to sign. */
export async function moveActivation(
  db: Queryable,
  { kid, purpose }: KeyName,
  activatedAt: Date,
): Promise<void> {
  const life = LIFE[purpose];
  await db.query(
    `UPDATE signing_keys SET ${life.activatedAt} = $2 WHERE kid = $1 AND ${life.state} = 'NEXT'`,
    [kid, activatedAt],
  );
}

/** Stops a key from signing. Its tokens stay valid. */
export async function markPrevious(db: Queryable, { kid, purpose }: KeyName, retiredAt: Date): Promise<void> {
  const life = LIFE[purpose];
  await db.query(
    `UPDATE signing_keys SET ${life.state} = 'PREVIOUS', ${life.retiredAt} = $2 WHERE kid = $1`,
    [kid, retiredAt],
  );
}

/** Removes a key from publication and erases its private half. */
export async function markGone(db: Queryable, { kid, purpose }: KeyName): Promise<void> {
  await db.query(`UPDATE signing_keys SET ${LIFE[purpose].state} = 'GONE', private_key = '' WHERE kid = $1`, [
    kid,
  ]);
}

/** Revokes a key. Every token that it signed becomes invalid. */
export async function markRevoked(
  db: Queryable,
  { kid, purpose }: KeyName,
  { at, reason }: { readonly at: Date; readonly reason: string },
): Promise<SigningKeyRow | undefined> {
  const life = LIFE[purpose];
  const { rows } = await db.query<SigningKeyRow>(
    `UPDATE signing_keys SET ${life.state} = 'GONE', private_key = '', revoked_at = $2, revocation_reason = $3,
            ${life.retiredAt} = coalesce(${life.retiredAt}, $2)
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
