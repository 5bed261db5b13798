/** Idempotency keys of requests that are not group-committed. */
import type { Queryable } from "../pool.ts";

export interface IdempotencyClaim {
  readonly tenantId: string;
  /** Method and path template. */
  readonly route: string;
  readonly key: string;
  readonly bodyHash: Buffer;
  /** What the request is about to make. */
  readonly resourceId: string;
  readonly now: Date;
  /** Keys of this age or older are free again. */
  readonly forgetBefore: Date;
}

/**
 * Takes a key for the running transaction; waits for another one that is about to. Returns what the key stands for
 * when it was taken before, undefined when it is the caller's now.
 */
export async function takeIdempotencyKey(
  db: Queryable,
  claim: IdempotencyClaim,
): Promise<{ readonly bodyHash: Buffer; readonly resourceId: string } | undefined> {
  const { rowCount } = await db.query({
    name: "take-idempotency-key",
    text: `INSERT INTO idempotency_keys AS k (tenant_id, route, key, body_hash, resource_id, created_at)
      VALUES ($1, $2, $3, $4, $5, $6)
      ON CONFLICT (tenant_id, route, key) DO UPDATE
        SET body_hash = excluded.body_hash, resource_id = excluded.resource_id, created_at = excluded.created_at
        WHERE k.created_at <= $7`,
    values: [
      claim.tenantId,
      claim.route,
      claim.key,
      claim.bodyHash,
      claim.resourceId,
      claim.now,
      claim.forgetBefore,
    ],
  });
  if (rowCount === 1) {
    return undefined;
  }
  const { rows } = await db.query<{ body_hash: Buffer; resource_id: string }>({
    name: "find-idempotency-key",
    text: "SELECT body_hash, resource_id FROM idempotency_keys WHERE tenant_id = $1 AND route = $2 AND key = $3",
    values: [claim.tenantId, claim.route, claim.key],
  });
  const row = rows[0];
  if (row === undefined) {
    throw new Error("an idempotency key was taken and is not there");
  }
  return { bodyHash: row.body_hash, resourceId: row.resource_id };
}
