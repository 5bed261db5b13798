/** Keys under which a request is carried out once: Idempotency-Keys, ids of signed requests, publishers' ids of events. */
import { createHash } from "node:crypto";
import type { Queryable } from "../pool.ts";

/** Where a key is kept. */
export interface KeyPlace {
  /** Whose it is. */
  readonly tenantId: string;
  /** Method and path template, and what else keeps this key apart from others. */
  readonly route: string;
  readonly key: string;
  /**
   * Where version 0.2 keeps the same key, in clear and for all principals of the tenant. It counts until it is 24 hours old,
   * as it counted there: processes of both versions run during an upgrade.
   */
  readonly former?: { readonly route: string; readonly key: string };
}

/** Of the texts of a key: what reads the table learns no key that answers show secrets for. */
function digestOf(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url");
}

/** An Idempotency-Key, which counts for one principal. */
export function principalKey(
  { tenantId, principalId }: { readonly tenantId: string; readonly principalId: string },
  route: string,
  key: string,
): KeyPlace {
  const former = { route, key };
  return { tenantId, route: `${route} by ${principalId}`, key: digestOf(principalId, key), former };
}

/** The id that a request was signed with, which counts for one credential. It is no secret. */
export function signedKey(
  { tenantId, credentialId }: { readonly tenantId: string; readonly credentialId: string },
  route: string,
  id: string,
): KeyPlace {
  return { tenantId, route: `${route} signed by ${credentialId}`, key: id };
}

/** The publisher's own id of an event, which counts for all principals of the publisher's tenant. */
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
  /** What the request is about to make. */
  readonly resourceId: string;
  readonly now: Date;
  /** Keys of this age or older are free again. */
  readonly forgetBefore: Date;
}

/** What a key stands for. */
export interface TakenKey {
  readonly bodyHash: Buffer;
  readonly resourceId: string;
  readonly takenAt: Date;
}

/** Undefined when the key is not taken, or was taken at `forgetBefore` or earlier. */
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
 * Takes a key for the running transaction; waits for another one that is about to. Returns what the key stands for
 * when it was taken before, undefined when it is the caller's now.
 */
export async function takeIdempotencyKey(
  db: Queryable,
  { place, bodyHash, resourceId, now, forgetBefore }: IdempotencyClaim,
): Promise<TakenKey | undefined> {
  const { tenantId, route, key, former } = place;
  const earlier =
    former === undefined ? undefined : await findIdempotencyKey(db, { tenantId, ...former }, forgetBefore);
  if (earlier !== undefined) {
    return earlier;
  }
  const { rowCount } = await db.query({
    name: "take-idempotency-key",
    text: `INSERT INTO idempotency_keys AS k (tenant_id, route, key, body_hash, resource_id, created_at)
      VALUES ($1, $2, $3, $4, $5, $6)
      ON CONFLICT (tenant_id, route, key) DO UPDATE
        SET body_hash = excluded.body_hash, resource_id = excluded.resource_id, created_at = excluded.created_at
        WHERE k.created_at <= $7`,
    values: [tenantId, route, key, bodyHash, resourceId, now, forgetBefore],
  });
  if (rowCount === 1) {
    return undefined;
  }
  const taken = await findIdempotencyKey(db, { tenantId, route, key }, forgetBefore);
  if (taken === undefined) {
    throw new Error("an idempotency key was taken and is not there");
  }
  return taken;
}

/** Frees a key that stands for something that does not exist. */
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
