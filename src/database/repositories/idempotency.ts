/** Keys of requests that must run only once: Idempotency-Keys, ids of signed requests, publishers' ids of events. */
import { createHash } from "node:crypto";
import type { Queryable } from "../pool.ts";
import { sql } from "../sql.ts";

/** The place of a key. */
export interface KeyPlace {
  /** The key's tenant. */
  readonly tenantId: string;
  /** Method and path template, and whatever else separates this key from others. */
  readonly route: string;
  readonly key: string;
  /**
   * The key in version 0.2: in clear, and for all principals of the tenant. It counts until it is 24 hours old, because
   * processes of both versions run during an upgrade.
   */
  readonly former?: { readonly route: string; readonly key: string };
}

/** Hashes a key, so that readers of the table learn no key for which answers contain secrets. */
function digestOf(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url");
}

/** Returns the place of an Idempotency-Key, which belongs to one principal. */
export function principalKey(
  { tenantId, principalId }: { readonly tenantId: string; readonly principalId: string },
  route: string,
  key: string,
): KeyPlace {
  const former = { route, key };
  return { tenantId, route: `${route} by ${principalId}`, key: digestOf(principalId, key), former };
}

/** Returns the place of a signed request's id, which belongs to one credential. It is not secret. */
export function signedKey(
  { tenantId, credentialId }: { readonly tenantId: string; readonly credentialId: string },
  route: string,
  id: string,
): KeyPlace {
  return { tenantId, route: `${route} signed by ${credentialId}`, key: id };
}

/** Returns the place of the publisher's own event id, which belongs to all principals of the publisher's tenant. */
export function sourceKey(
  tenantId: string,
  route: string,
  event: { tenantId: string; id: string },
): KeyPlace {
  return { tenantId, route: `${route} id`, key: digestOf(event.tenantId, event.id) };
}

export interface IdempotencyClaim {
  readonly place: KeyPlace;
  readonly bodyHash: Buffer;
  /** Id of the resource that the request will create. */
  readonly resourceId: string;
  readonly now: Date;
  /** Keys taken at this time or earlier are free again. */
  readonly forgetBefore: Date;
}

/** The request that took a key. */
export interface TakenKey {
  readonly bodyHash: Buffer;
  readonly resourceId: string;
  readonly takenAt: Date;
}

/** Returns undefined if the key is free, or was taken at `forgetBefore` or earlier. */
export async function findIdempotencyKey(
  db: Queryable,
  { tenantId, route, key, former }: KeyPlace,
  forgetBefore: Date,
): Promise<TakenKey | undefined> {
  const { rows } = await db.query<{ body_hash: Buffer; resource_id: string; created_at: Date }>({
    name: "find-idempotency-key",
    text: `SELECT body_hash, resource_id, created_at FROM idempotency_keys
      WHERE tenant_id = $1 AND (route, key) IN (($2, $3), ($4, $5)) AND created_at > $6
      ORDER BY created_at DESC LIMIT 1`,
    values: [tenantId, route, key, former?.route ?? null, former?.key ?? null, forgetBefore],
  });
  const [row] = rows;
  return row === undefined
    ? undefined
    : { bodyHash: row.body_hash, resourceId: row.resource_id, takenAt: row.created_at };
}

/**
 * Takes a key for the running transaction. Waits for another transaction that is taking it. Returns the earlier request
 * if the key was already taken, undefined if the caller has it now.
 */
export async function takeIdempotencyKey(
  db: Queryable,
  { place, bodyHash, resourceId, now, forgetBefore }: IdempotencyClaim,
): Promise<TakenKey | undefined> {
  const { tenantId, route, key } = place;
  // The conflict below is only with the open table. The reading keeps it from being closed until the transaction ends.
  const earlier = await findIdempotencyKey(db, place, forgetBefore);
  if (earlier !== undefined) {
    return earlier;
  }
  const { rowCount } = await db.query({
    name: "take-idempotency-key",
    ...sql`INSERT INTO idempotency_keys AS k (tenant_id, route, key, body_hash, resource_id, created_at)
      VALUES (${tenantId}, ${route}, ${key}, ${bodyHash}, ${resourceId}, ${now})
      ON CONFLICT (tenant_id, route, key) DO UPDATE
        SET body_hash = excluded.body_hash, resource_id = excluded.resource_id, created_at = excluded.created_at
        WHERE k.created_at <= ${forgetBefore}`,
  });
  if (rowCount === 1) {
    return undefined;
  }
  const taken = await findIdempotencyKey(db, { tenantId, route, key }, forgetBefore);
  if (taken === undefined) {
    throw new Error("an idempotency key was taken but cannot be found");
  }
  return taken;
}

/** Frees a key whose resource does not exist. */
export async function freeIdempotencyKey(
  db: Queryable,
  { tenantId, route, key }: KeyPlace,
  resourceId: string,
): Promise<void> {
  await db.query(
    `UPDATE idempotency_keys SET created_at = 'epoch'
      WHERE tenant_id = $1 AND route = $2 AND key = $3 AND resource_id = $4`,
    [tenantId, route, key, resourceId],
  );
}
