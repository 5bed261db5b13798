/**
 * Endpoint secrets: `whsec_` + base64 of 32 random bytes (Standard Webhooks allows 24 to 64).
 *
 * The two signatures use different keys derived from one secret, so that neither can be used as the other:
 * `sha256=` the UTF-8 bytes of the whole text as shown, `v1` the decoded bytes.
 */
import { decodePublicKey, isPublicKey } from "./ed25519.ts";

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

function readSecret(given: unknown, name: string): string {
  if (given === undefined || given === null) {
    throw new TypeError(`${name} is not set`);
  }
  if (typeof given !== "string") {
    throw new TypeError(`${name} is not a text`);
  }
  // A file ends with a newline, and an editor may begin it with a byte order mark.
  const secret = given.trim();
  if (secret === "") {
    throw new TypeError(`${name} is empty`);
  }
  if (!secret.startsWith(PREFIX) && !isPublicKey(secret)) {
    throw new TypeError(`${name} begins neither with whsec_ (a secret) nor with whpk_ (a public key)`);
  }
  try {
    void (isPublicKey(secret) ? decodePublicKey(secret) : decodeSecret(secret));
  } catch (error) {
    throw new TypeError(`${name} is malformed: ${(error as Error).message}`, { cause: error });
  }
  return secret;
}

/**
 * Checks configured secrets and public keys, and returns them without surrounding white space.
 *
 * @param given a text or a list of texts
 * @throws TypeError that names the wrong one, without its text
 */
export function readSecrets(given: unknown): string[] {
  if (!Array.isArray(given)) {
    return [readSecret(given, "secrets")];
  }
  if (given.length === 0) {
    throw new TypeError("secrets is empty: a receiver needs at least one secret");
  }
  // Array.from, because map would skip what a sparse list lacks.
  return Array.from(given as readonly unknown[], (one, index) => readSecret(one, `secrets[${index}]`));
}
