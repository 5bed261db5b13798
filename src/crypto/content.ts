/**
 * Content of events, sealed: AES-256-GCM under a key of the event's own, which HMAC-SHA-256 derives from the tenant's
 * data key and 32 random bytes that lie in front of the ciphertext. Overwriting those bytes makes the event, and all that
 * was sealed beside it, noise; so does destroying the data key (decision 0014).
 *
 * Content: 1 byte of version, 32 of salt, ciphertext, 16 of tag. The key seals one content only, so its IV is fixed.
 * What is sealed beside it: 1 byte of version, 12 of random IV, ciphertext, 16 of tag. No base64: events are many.
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync } from "node:crypto";
import { EnvelopeError } from "./envelope.ts";

const ALGORITHM = "aes-256-gcm";
const VERSION = 1;
const KEY_BYTES = 32;
const TAG_BYTES = 16;
const IV_BYTES = 12;
/** Of no other use than this one message. */
const CONTENT_IV = Buffer.alloc(IV_BYTES);

/** Random bytes that make an event's key. */
export const CONTENT_SALT_BYTES = 32;
/** What of a content must be known to open what was sealed beside it: version and salt. */
export const CONTENT_HEAD_BYTES = 1 + CONTENT_SALT_BYTES;

/** What a tenant's content keys are derived from: HKDF of its data key. */
export function contentRoot(dataKey: Buffer): Buffer {
  return Buffer.from(hkdfSync("sha256", dataKey, "", "signet event content", KEY_BYTES));
}

/**
 * The key of one event.
 *
 * @param head the event's content, or the beginning of it
 * @throws EnvelopeError when it is no content
 */
export function contentKey(root: Buffer, head: Buffer): Buffer {
  if (head[0] !== VERSION || head.length < CONTENT_HEAD_BYTES) {
    throw new EnvelopeError("not the content of an event");
  }
  return createHmac("sha256", root).update(head.subarray(1, CONTENT_HEAD_BYTES)).digest();
}

/**
 * Seals the content of a new event.
 *
 * @param place where it is kept (`envelopeAad`)
 * @param salt 32 random bytes that were used for nothing else
 */
export function sealContent(root: Buffer, place: string, salt: Uint8Array, text: string): Buffer {
  const head = Buffer.allocUnsafe(CONTENT_HEAD_BYTES);
  head[0] = VERSION;
  head.set(salt, 1);
  return seal(contentKey(root, head), place, { head, iv: CONTENT_IV, text });
}

/**
 * Opens the content of an event with its key.
 *
 * @returns bytes of UTF-8: most are passed on as they are
 * @throws EnvelopeError when it was sealed with another key or for another place
 */
export function openContentBytes(key: Buffer, place: string, content: Buffer): Buffer {
  return open(key, place, { iv: CONTENT_IV, sealed: content.subarray(CONTENT_HEAD_BYTES) });
}

/** As {@link openContentBytes}, as text. */
export function openContent(key: Buffer, place: string, content: Buffer): string {
  return openContentBytes(key, place, content).toString("utf8");
}

/**
 * Seals something that must end with an event's content, with its key.
 *
 * @param iv 12 random bytes
 */
export function sealBeside(key: Buffer, place: string, iv: Uint8Array, text: string): Buffer {
  const head = Buffer.allocUnsafe(1 + IV_BYTES);
  head[0] = VERSION;
  head.set(iv, 1);
  return seal(key, place, { head, iv, text });
}

/**
 * Opens what was sealed beside an event's content.
 *
 * @throws EnvelopeError when it was sealed with another key or for another place
 */
export function openBeside(key: Buffer, place: string, sealed: Buffer): string {
  if (sealed[0] !== VERSION) {
    throw new EnvelopeError("not sealed beside an event's content");
  }
  const iv = sealed.subarray(1, 1 + IV_BYTES);
  return open(key, place, { iv, sealed: sealed.subarray(1 + IV_BYTES) }).toString("utf8");
}

function seal(
  key: Buffer,
  place: string,
  { head, iv, text }: { readonly head: Buffer; readonly iv: Uint8Array; readonly text: string },
): Buffer {
  const cipher = createCipheriv(ALGORITHM, key, iv).setAAD(Buffer.from(place));
  const ciphertext = cipher.update(text, "utf8");
  // A stream cipher: nothing is left to come.
  cipher.final();
  return Buffer.concat([head, ciphertext, cipher.getAuthTag()]);
}

function open(
  key: Buffer,
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
