/**
 * The pepper: the key under which client secrets are kept as MACs. A secret has 256 random bits, so no slow hash is
 * needed, and without the pepper the database alone cannot even test a guess (security decisions A).
 */
import { createHmac } from "node:crypto";

export interface Pepper {
  /** Names the pepper in the rows whose MACs it made. */
  readonly id: string;
  /** HMAC-SHA-256 of a secret, 32 bytes. */
  mac(secret: string): Buffer;
}

/** Makes the pepper from its key, 32 bytes or more. */
export function createPepper(key: Buffer): Pepper {
  const mac = (text: string): Buffer => createHmac("sha256", key).update(text).digest();
  return { id: mac("signet pepper id").toString("hex").slice(0, 8), mac };
}
