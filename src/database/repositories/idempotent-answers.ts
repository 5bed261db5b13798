/** Stored answers to POSTs that may be repeated. Their content is sealed (api/repeatable.ts). */
import type { Queryable } from "../pool.ts";
import { sql } from "../sql.ts";

/** Identifies a request. */
export interface AnswerPlace {
  /** A tenant or an operator. */
  readonly ownerId: string;
  /** Method and path template. */
  readonly route: string;
  /** SHA-256 of the Idempotency-Key and its principal. */
  readonly keyDigest: Buffer;
}

/** Limits of how long a key stays taken. */
export interface AnswerAges {
  /** A key without an answer that was taken 30 s later or more is free: a wrong clock has stamped it. */
  readonly now: Date;
  /** Keys taken at this time or earlier are free again. */
  readonly forgetBefore: Date;
  /** Keys without an answer taken at this time or earlier are free, too: their process has died. */
  readonly abandonedBefore: Date;
}

export interface AnswerClaim extends AnswerPlace, AnswerAges {
  readonly bodyHash: Buffer;
}

export interface KeptAnswer {
  readonly bodyHash: Buffer;
  /** An envelope; null while the request is under way. */
  readonly answer: string | null;
}

/** Returns the answer stored under a key; undefined if the key is free. */
export async function findAnswer(
  db: Queryable,
  { ownerId, route, keyDigest }: AnswerPlace,
  { now, forgetBefore, abandonedBefore }: AnswerAges,
): Promise<KeptAnswer | undefined> {
  const { rows } = await db.query<{ body_hash: Buffer; answer: string | null }>({
    name: "find-answer",
    text: `SELECT body_hash, answer FROM idempotent_answers
      WHERE owner_id = $1 AND route = $2 AND key_digest = $3
        AND created_at > $4 AND (answer IS NOT NULL OR created_at > $5 AND created_at <= $6::timestamptz + interval '30 seconds')
      ORDER BY created_at DESC LIMIT 1`,
    values: [ownerId, route, keyDigest, forgetBefore, abandonedBefore, now],
  });
  const [row] = rows;
  return row === undefined ? undefined : { bodyHash: row.body_hash, answer: row.answer };
}

/**
 * Takes a key for the running transaction. Waits for another transaction that is taking it. Returns the stored answer
 * if the key was already taken, undefined if the caller has it now.
 */
export async function claimAnswer(db: Queryable, claim: AnswerClaim): Promise<KeptAnswer | undefined> {
  const { ownerId, route, keyDigest, bodyHash, now, forgetBefore, abandonedBefore } = claim;
  // The conflict below is only with the open table. The reading keeps it from being closed until the transaction ends.
  const earlier = await findAnswer(db, claim, claim);
  if (earlier !== undefined) {
    return earlier;
  }
  const { rowCount } = await db.query({
    name: "claim-answer",
    ...sql`INSERT INTO idempotent_answers AS a (owner_id, route, key_digest, body_hash, created_at)
      VALUES (${ownerId}, ${route}, ${keyDigest}, ${bodyHash}, ${now})
      ON CONFLICT (owner_id, route, key_digest) DO UPDATE
        SET body_hash = excluded.body_hash, answer = NULL, created_at = excluded.created_at
        WHERE a.created_at <= ${forgetBefore}
          -- Nobody has taken it in the future: a wrong clock has stamped it.
          OR (a.answer IS NULL AND (a.created_at <= ${abandonedBefore} OR a.created_at > ${now}::timestamptz + interval '30 seconds'))`,
  });
  if (rowCount === 1) {
    return undefined;
  }
  const kept = await findAnswer(db, claim, claim);
  if (kept === undefined) {
    throw new Error("an idempotency key was taken but cannot be found");
  }
  return kept;
}

/** Stores the answer of the request whose key the transaction has taken. */
export async function keepAnswer(
  db: Queryable,
  { ownerId, route, keyDigest }: AnswerPlace,
  { takenAt, answer }: { readonly takenAt: Date; readonly answer: string },
): Promise<void> {
  await db.query({
    name: "keep-answer",
    text: `UPDATE idempotent_answers SET answer = $5
      WHERE owner_id = $1 AND route = $2 AND key_digest = $3 AND created_at = $4`,
    values: [ownerId, route, keyDigest, takenAt, answer],
  });
}

/** Frees a key that the caller has taken and committed, but has no answer for. */
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
