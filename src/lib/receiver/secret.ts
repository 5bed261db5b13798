/**
 * Endpoint secrets: `whsec_` + base64 of 32 random bytes (Standard Webhooks allows 24 to 64).
 *
 * The two signatures use different keys derived from one secret, so that neither can be used as the other:
 * `sha256=` the UTF-8 bytes of the whole text as shown, `v1` the decoded bytes.
 */

const PREFIX = "whsec_";
const SECRET_FORMAT = /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/;
const GENERATED_BYTES = 32;
const MIN_BYTES = 24;
const MAX_BYTES = 64;

/** Creates a secret. `randomBytes` must be cryptographically secure, for instance that of `node:crypto`. */
export function generateSecret(randomBytes: (size: number) => Uint8Array): string {
  return PREFIX + Buffer.from(randomBytes(GENERATED_BYTES)).toString("base64");
}

/**
 * Returns the key of `v1` signatures.
 *
 * @throws TypeError for anything but a well-formed secret: an empty or mangled one would make signatures
 * that anyone can forge, so it is a configuration error, never a failed verification.
 */
export function decodeSecret(secret: string): Uint8Array {
  if (SECRET_FORMAT.test(secret)) {
    const text = secret.slice(PREFIX.length);
    const key = Buffer.from(text, "base64");
    if (key.length >= MIN_BYTES && key.length <= MAX_BYTES && key.toString("base64") === text) {
      return key;
    }
  }
  throw new TypeError("a secret is whsec_ followed by the base64 of 24 to 64 bytes");
}
