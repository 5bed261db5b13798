/**
 * Encrypts events' content: AES-256-GCM under the event's own key. HMAC-SHA-256 derives this key from the tenant's data
 * key and a salt of 32 random bytes before the ciphertext. Overwriting the salt makes the event, and everything sealed
 * with its key, unreadable. So does destroying the data key (decision 14).
 *
 * Content: 1 byte of version, 32 of salt, ciphertext, 16 of tag. The key seals only one content, so its IV is fixed.
 * Sealed beside it: 1 byte of version, 12 of random IV, ciphertext, 16 of tag. No base64, because events are many.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
} from "node:crypto";
import { EnvelopeError } from "./envelope.ts";

const ALGORITHM = "aes-256-gcm";
const VERSION = 1;
const KEY_BYTES = 32;
const TAG_BYTES = 16;
const IV_BYTES = 12;
/** The fixed IV. Its key seals only this one message. */
const CONTENT_IV = Buffer.alloc(IV_BYTES);

/** Length of the salt that determines an event's key, in bytes. */
export const CONTENT_SALT_BYTES = 32;
/** Length of the head, in bytes: version and salt. It suffices to open values sealed beside the content. */
export const CONTENT_HEAD_BYTES = 1 + CONTENT_SALT_BYTES;

/** Derives the root of a tenant's content keys from its data key, with HKDF. */
export function contentRoot(dataKey: Buffer): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync("sha256", dataKey, "", "signet event content", KEY_BYTES)));
}

/**
 * Derives the key of one event.
 *
 * @param head the event's content, or at least its head
 * @throws EnvelopeError if `head` is not event content
 */
export function contentKey(root: KeyObject, head: Buffer): KeyObject {
  if (head[0] !== VERSION || head.length < CONTENT_HEAD_BYTES) {
    throw new EnvelopeError("not the content of an event");
  }
  return createSecretKey(createHmac("sha256", root).update(head.subarray(1, CONTENT_HEAD_BYTES)).digest());
}

/**
 * Seals the content of a new event.
 *
 * @param place additional data (`envelopeAad`)
 * @param salt 32 random bytes, used only here
 */
export function sealContent(root: KeyObject, place: string, salt: Uint8Array, text: string): Buffer {
  const head = Buffer.allocUnsafe(CONTENT_HEAD_BYTES);
  head[0] = VERSION;
  head.set(salt, 1);
  return seal(contentKey(root, head), place, { head, iv: CONTENT_IV, text });
}

/**
 * Opens the content of an event with its key.
 *
 * @returns UTF-8 bytes, which most callers pass on unchanged
 * @throws EnvelopeError if it was sealed with another key or for another place
 */
export function openContentBytes(key: KeyObject, place: string, content: Buffer): Buffer {
  return open(key, place, { iv: CONTENT_IV, sealed: content.subarray(CONTENT_HEAD_BYTES) });
}

/** Like {@link openContentBytes}, but returns text. */
export function openContent(key: KeyObject, place: string, content: Buffer): string {
  return openContentBytes(key, place, content).toString("utf8");
}

/**
 * Seals a value that must become unreadable with an event's content, under the event's key.
 *
 * @param iv 12 random bytes
 */
export function sealBeside(key: KeyObject, place: string, iv: Uint8Array, text: string): Buffer {
  const head = Buffer.allocUnsafe(1 + IV_BYTES);
  head[0] = VERSION;
  head.set(iv, 1);
  return seal(key, place, { head, iv, text });
}

/**
 * Opens a value sealed beside an event's content.
 *
 * @throws EnvelopeError if it was sealed with another key or for another place
 */
export function openBeside(key: KeyObject, place: string, sealed: Buffer): string {
  if (sealed[0] !== VERSION) {
    throw new EnvelopeError("not sealed beside an event's content");
  }
  const iv = sealed.subarray(1, 1 + IV_BYTES);
  return open(key, place, { iv, sealed: sealed.subarray(1 + IV_BYTES) }).toString("utf8");
}

function seal(
  key: KeyObject,
  place: string,
  { head, iv, text }: { readonly head: Buffer; readonly iv: Uint8Array; readonly text: string },
): Buffer {
  const cipher = createCipheriv(ALGORITHM, key, iv).setAAD(Buffer.from(place));
  const ciphertext = cipher.update(text, "utf8");
  // A stream cipher's final() returns no bytes.
  cipher.final();
  return Buffer.concat([head, ciphertext, cipher.getAuthTag()]);
}

function open(
  key: KeyObject,
  place: string,
  { iv, sealed }: { readonly iv: Uint8Array; readonly sealed: Buffer },
): Buffer {
  try {
    const end = sealed.length - TAG_BYTES;
    const decipher = createDecipheriv(ALGORITHM, key, iv, { authTagLength: TAG_BYTES })
      .setAAD(Buffer.from(place))
      .setAuthTag(sealed.subarray(Math.max(end, 0)));
    const text = decipher.update(sealed.subarray(0, Math.max(end, 0)));
    decipher.final();
    return text;
  } catch (error) {
    throw new EnvelopeError("changed, or sealed for another place", { cause: error });
  }
}
