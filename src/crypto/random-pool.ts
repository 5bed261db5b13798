/** Random bytes for ids, drawn in bulk: one call into OpenSSL for each id costs as much as the rest of the id. */
import { randomFillSync } from "node:crypto";
import type { RandomBytes } from "../domain/ids.ts";

const POOL_BYTES = 16_384;

/** Makes a source of bytes that are used once each. Not for secrets: what is not used yet lies in memory. */
export function createRandomPool(): RandomBytes {
  const pool = Buffer.allocUnsafe(POOL_BYTES);
  let used = POOL_BYTES;
  return (size) => {
    if (used + size > POOL_BYTES) {
      randomFillSync(pool);
      used = 0;
    }
    const bytes = Uint8Array.prototype.slice.call(pool, used, used + size);
    used += size;
    return bytes;
  };
}
