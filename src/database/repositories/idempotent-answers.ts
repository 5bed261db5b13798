/** Answers kept for POSTs that may be sent again; what they say is sealed (api/repeatable.ts). */
import type { Queryable } from "../pool.ts";

/** Which request it is. */
export interface AnswerPlace {
  /** A tenant or an operator. */
  readonly ownerId: string;
  /** Method and path template. */
  readonly route: string;
  /** SHA-256 of the Idempotency-Key, and of the principal whose it is. */
  readonly keyDigest: Buffer;
}

/** How long a key stays taken. */
export interface AnswerAges {
  /** Keys of this age or older are free again. */
  readonly forgetBefore: Date;
  /** So are keys of this age without an answer: whoever took them is gone. */
  readonly abandonedBefore: Date;
}

export interface AnswerClaim extends AnswerPlace, AnswerAges {
  readonly bodyHash: Buffer;
  readonly now: Date;
}

export interface KeptAnswer {
  readonly bodyHash: Buffer;
  /** An envelope; null while the request is carried out. */
  readonly answer: string | null;
}

/** What was answered under a key; undefined when it is free. */
export async function findAnswer(
  db: Queryable,
  { ownerId, route, keyDigest }: AnswerPlace,
  { forgetBefore, abandonedBefore }: AnswerAges,
): Promise<KeptAnswer | undefined> {
  const { rows } = await db.query<{ body_hash: Buffer; answer: string | null }>({
    name: "find-answer",
    text: `SELECT body_hash, answer FROM idempotent_answers
      WHERE owner_id = $1 AND route = $2 AND key_digest = $3
        AND created_at > $4 AND (answer IS NOT NULL OR created_at > $5)`,
    values: [ownerId, route, keyDigest, forgetBefore, abandonedBefore],
  });
  const [row] = rows;
  return row === undefined ? undefined : { bodyHash: row.body_hash, answer: row.answer };
}

/**
 * Takes a key for the running transaction; waits for another one that is about to. Returns what was answered when it
 * was taken before, undefined when it is the caller's now.
 */
export async function claimAnswer(db: Queryable, claim: AnswerClaim): Promise<KeptAnswer | undefined> {
  const { ownerId, route, keyDigest, bodyHash, now, forgetBefore, abandonedBefore } = claim;
  const { rowCount } = await db.query({
    name: "claim-answer",
    text: `INSERT INTO idempotent_answers AS a (owner_id, route, key_digest, body_hash, created_at)
      VALUES ($1, $2, $3, $4, $5)
      ON CONFLICT (owner_id, route, key_digest) DO UPDATE
        SET body_hash = excluded.body_hash, answer = NULL, created_at = excluded.created_at
        WHERE a.created_at <= $6
          -- Nobody has taken it in the future: a wrong clock has stamped it.
          OR (a.answer IS NULL AND (a.created_at <= $7 OR a.created_at > $5::timestamptz + interval '30 seconds'))`,
    values: [ownerId, route, keyDigest, bodyHash, now, forgetBefore, abandonedBefore],
  });
  if (rowCount === 1) {
    return undefined;
  }
  const kept = await findAnswer(db, claim, claim);
  if (kept === undefined) {
    throw new Error("an idempotency key was taken and is not there");
  }
  return kept;
}

/** Keeps the answer of the request whose key the transaction has taken. */
export async function keepAnswer(
  db: Queryable,
  { ownerId, route, keyDigest }: AnswerPlace,
  answer: string,
): Promise<void> {
  await db.query({
    name: "keep-answer",
    text: "UPDATE idempotent_answers SET answer = $4 WHERE owner_id = $1 AND route = $2 AND key_digest = $3",
    values: [ownerId, route, keyDigest, answer],
  });
}

/** Frees a key that the caller has taken, and committed, and has no answer for. */
export async function freeAnswer(
  db: Queryable,
  { ownerId, route, keyDigest }: AnswerPlace,
  takenAt: Date,
): Promise<void> {
  await db.query({
    name: "free-answer",
    text: `UPDATE idempotent_answers SET created_at = 'epoch'
      WHERE owner_id = $1 AND route = $2 AND key_digest = $3 AND answer IS NULL AND created_at = $4`,
    values: [ownerId, route, keyDigest, takenAt],
  });
}

/** Forgets answers given before an instant; returns how many. */
export async function forgetAnswers(db: Queryable, before: Date, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `DELETE FROM idempotent_answers a USING (
        SELECT owner_id, route, key_digest FROM idempotent_answers WHERE created_at < $1 ORDER BY created_at LIMIT $2
      ) old WHERE a.owner_id = old.owner_id AND a.route = old.route AND a.key_digest = old.key_digest AND a.created_at < $1`,
    [before, limit],
  );
  return rowCount ?? 0;
}
