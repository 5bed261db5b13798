/**
 * Envelopes: `v1.<key id>.<iv>.<tag>.<ciphertext>`, AES-256-GCM, base64url. The additional data names the place of the
 * value, so that an envelope moved to another row, tenant or version cannot be opened.
 */
import { createCipheriv, createDecipheriv, createHmac, createSecretKey, type KeyObject } from "node:crypto";
import type { RandomBytes } from "#domain/ids.ts";

const ALGORITHM = "aes-256-gcm";
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** A key with its id in envelopes. */
export interface EnvelopeKey {
  readonly id: string;
  /** 32 bytes. */
  readonly key: KeyObject;
}

/** An envelope cannot be opened: wrong key, wrong place, or changed. */
export class EnvelopeError extends Error {
  override readonly name = "EnvelopeError";
}

/** Returns the additional data of a value: the place where it is stored. */
export function envelopeAad(table: string, tenantId: string, id: string, version: number): string {
  return `${table}|${tenantId}|${id}|${version}`;
}

/** Names a key by a digest that reveals nothing about it. */
export function namedKey(bytes: Buffer): EnvelopeKey {
  const key = createSecretKey(bytes);
  return { id: createHmac("sha256", key).update("signet envelope key id").digest("hex").slice(0, 8), key };
}

/** Returns the id of the key that sealed an envelope; empty for other texts. */
export function envelopeKeyId(envelope: string): string {
  return envelope.split(".", 2)[1] ?? "";
}

/** Encrypts `plaintext`. The random IV is safe for 2^32 envelopes of one key. */
export function sealEnvelope(
  { id, key }: EnvelopeKey,
  aad: string,
  plaintext: string | Uint8Array,
  randomBytes: RandomBytes,
): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, iv, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(aad));
  const ciphertext = Buffer.concat([cipher.update(Buffer.from(plaintext)), cipher.final()]);
  const parts = [Buffer.from(iv), cipher.getAuthTag(), ciphertext].map((part) => part.toString("base64url"));
  return ["v1", id, ...parts].join(".");
}

/**
 * Decrypts an envelope.
 *
 * @throws EnvelopeError if it was not sealed with this key for this place
 */
export function openEnvelope({ id, key }: EnvelopeKey, aad: string, envelope: string): Buffer {
  const [version, keyId, iv, tag, ciphertext, ...rest] = envelope.split(".");
  if (
    version !== "v1" ||
    iv === undefined ||
    tag === undefined ||
    ciphertext === undefined ||
    rest.length > 0
  ) {
    throw new EnvelopeError("not an envelope");
  }
  if (keyId !== id) {
    throw new EnvelopeError(`sealed with key ${keyId}, not with ${id}`);
  }
  try {
    const decipher = createDecipheriv(ALGORITHM, key, Buffer.from(iv, "base64url"), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(Buffer.from(aad)).setAuthTag(Buffer.from(tag, "base64url"));
    return Buffer.concat([decipher.update(Buffer.from(ciphertext, "base64url")), decipher.final()]);
  } catch (error) {
    throw new EnvelopeError("changed, or sealed for another place", { cause: error });
  }
}
