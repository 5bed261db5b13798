/** Stores the keys with which the primary authenticates its proofs (migration 0053). */
import { leaseKeyId } from "#crypto/lease-key.ts";
import type { Queryable } from "#database/pool.ts";

/** Block length of SHA-256, to which RFC 2104 pads keys, in bytes. */
const BLOCK_BYTES = 64;
const INNER = 0x36;
const OUTER = 0x5c;

function padded(key: Buffer, pad: number): Buffer {
  return Buffer.from(Uint8Array.from({ length: BLOCK_BYTES }, (_, index) => (key[index] ?? 0) ^ pad));
}

/**
 * Makes these keys the only ones; each proof then has a code of each (role signet_owner).
 *
 * @param keys 32 to 64 bytes each
 */
export async function setLeaseKeys(db: Queryable, keys: readonly Buffer[]): Promise<void> {
  const ids = keys.map(leaseKeyId);
  await db.query("DELETE FROM lease_keys WHERE id <> ALL($1)", [ids]);
  for (const [index, key] of keys.entries()) {
    await db.query(
      "INSERT INTO lease_keys (id, inner_pad, outer_pad) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
      [ids[index], padded(key, INNER), padded(key, OUTER)],
    );
  }
}
