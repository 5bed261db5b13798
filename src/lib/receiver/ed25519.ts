/**
 * Asymmetric signatures of Standard Webhooks: `v1a,<base64>`, Ed25519 over `id.timestamp.body`. Public keys are written
 * `whpk_` and the base64 of 32 bytes; their holders can verify but not sign.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { soundKey } from "../public-key.ts";

const PUBLIC_PREFIX = "whpk_";
const PUBLIC_FORMAT = /^whpk_[A-Za-z0-9+/]{43}=$/;
const KEY_BYTES = 32;
/** RFC 8410: the prefix of the raw key in PKCS #8 and in SubjectPublicKeyInfo. */
const PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");
const SPKI_HEAD = Buffer.from("302a300506032b6570032100", "hex");

/** The signed message; the same as for `v1`. */
export interface AsymmetricMessage {
  readonly id: string;
  readonly timestamp: string;
  readonly body: Uint8Array;
}

function messageBytes({ id, timestamp, body }: AsymmetricMessage): Buffer {
  return Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
}

function privateKeyOf(seed: Uint8Array): ReturnType<typeof createPrivateKey> {
  return createPrivateKey({ key: Buffer.concat([PKCS8_HEAD, seed]), format: "der", type: "pkcs8" });
}

/** Returns the public key, `whpk_…`, of a private one: 32 bytes from a cryptographically secure source. */
export function publicKeyOf(seed: Uint8Array): string {
  const spki = createPublicKey(privateKeyOf(seed)).export({ format: "der", type: "spki" });
  return PUBLIC_PREFIX + spki.subarray(SPKI_HEAD.length).toString("base64");
}

/** Returns one value of `webhook-signature`. */
export function signAsymmetric(seed: Uint8Array, message: AsymmetricMessage): string {
  return `v1a,${sign(null, messageBytes(message), privateKeyOf(seed)).toString("base64")}`;
}

/** Whether a configured key is public, for {@link verifyAsymmetric}. */
export function isPublicKey(text: string): boolean {
  return text.startsWith(PUBLIC_PREFIX);
}

/**
 * Returns the public key.
 *
 * @throws TypeError for anything but a sound public key: a mistake in the configuration
 */
export function decodePublicKey(text: string): KeyObject {
  const raw = Buffer.from(text.slice(PUBLIC_PREFIX.length), "base64");
  if (
    !PUBLIC_FORMAT.test(text) ||
    raw.length !== KEY_BYTES ||
    PUBLIC_PREFIX + raw.toString("base64") !== text
  ) {
    throw new TypeError("a public key is whpk_ followed by the base64 of 32 bytes");
  }
  const der = Buffer.concat([SPKI_HEAD, raw]);
  return soundKey(createPublicKey({ key: der, format: "der", type: "spki" }));
}

/**
 * Whether a `v1a,…` value is the signature of the message.
 *
 * @throws TypeError as {@link decodePublicKey}
 */
export function verifyAsymmetric(publicKey: string, message: AsymmetricMessage, value: string): boolean {
  const key = decodePublicKey(publicKey);
  return verify(null, messageBytes(message), key, Buffer.from(value.slice("v1a,".length), "base64"));
}
