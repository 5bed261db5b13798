/** Random bytes for ids, drawn in bulk: an OpenSSL call per id would cost as much as the rest of the id. */
import { randomFillSync } from "node:crypto";
import type { RandomBytes } from "#domain/ids.ts";

const POOL_BYTES = 16_384;

/** Creates a source that returns each byte once. Not for secrets, because unused bytes stay in memory. */
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
