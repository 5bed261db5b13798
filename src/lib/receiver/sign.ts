/**
 * The signatures of a delivery. The sender and the receiver's `verify` share this one implementation.
 */
import { createHmac, createSecretKey, type Hmac } from "node:crypto";
import { decodeSecret } from "./secret.ts";

/** The signed payload and its secret. */
export interface SignInput {
  /** `whsec_…` as shown to the tenant. */
  readonly secret: string;
  /** The exact bytes sent. */
  readonly body: Uint8Array;
  /** The event id: the value of `webhook-id`. */
  readonly id: string;
  /** Unix seconds: the value of `X-Service-Timestamp` and `webhook-timestamp`. */
  readonly timestampSeconds: number;
}

/** Header values, ready to send. */
export interface DeliverySignatures {
  /** `sha256=<64 lowercase hex>` for `X-Service-Signature-256`. */
  readonly sha256: string;
  /** `v1,<base64>` for `webhook-signature`. */
  readonly v1: string;
}

/** Node takes five times as long for a key that is no key object. */
function hmacUnder(key: Uint8Array): Hmac {
  return createHmac("sha256", createSecretKey(key));
}

/** HMAC-SHA-256 over the body only, keyed with the secret's text as shown (contract 6.5). */
export function signBody(secret: string, body: Uint8Array): string {
  return `sha256=${hmacUnder(Buffer.from(secret)).update(body).digest("hex")}`;
}

/** HMAC-SHA-256 over `id.timestamp.body`, keyed with the decoded secret (Standard Webhooks, symmetric v1). */
export function signMessage(
  key: Uint8Array,
  message: { readonly id: string; readonly timestamp: string; readonly body: Uint8Array },
): string {
  const hmac = hmacUnder(key).update(`${message.id}.${message.timestamp}.`);
  return `v1,${hmac.update(message.body).digest("base64")}`;
}

/**
 * Returns both signatures of one delivery attempt.
 *
 * @throws TypeError for a malformed secret, an id with a dot (it separates the signed parts) or a
 * timestamp that is not a whole number of seconds
 */
export function signDelivery(input: SignInput): DeliverySignatures {
  const { secret, body, id, timestampSeconds } = input;
  if (id === "" || id.includes(".")) {
    throw new TypeError("a signed id is not empty and has no dot");
  }
  if (!Number.isSafeInteger(timestampSeconds) || timestampSeconds < 0) {
    throw new TypeError("timestampSeconds is a whole number of Unix seconds");
  }
  const key = decodeSecret(secret);
  return {
    sha256: signBody(secret, body),
    v1: signMessage(key, { id, timestamp: String(timestampSeconds), body }),
  };
}
