/** Keys with which the primary authenticates proofs of revocations (decision 33). */
import { hash } from "node:crypto";

/** Length of an id, in hexadecimal digits. */
export const LEASE_KEY_ID_LENGTH = 16;

/** Returns the id of a key: the first digits of its SHA-256. */
export function leaseKeyId(key: Buffer): string {
  return hash("sha256", key, "hex").slice(0, LEASE_KEY_ID_LENGTH);
}
