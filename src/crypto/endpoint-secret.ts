/** Envelopes and fingerprints of endpoints' secrets. */
import { createHash } from "node:crypto";
import { envelopeAad } from "./envelope.ts";

/** Returns the additional data of a secret's envelope. */
export function secretAad(tenantId: string, endpointId: string, version: number): string {
  return envelopeAad("endpoint_secrets", tenantId, endpointId, version);
}

/** Returns the additional data of an Ed25519 private key's envelope. */
export function signingKeyAad(tenantId: string, endpointId: string, version: number): string {
  return envelopeAad("endpoint_signing_keys", tenantId, endpointId, version);
}

/** Returns the first 8 hex digits of a secret's SHA-256: enough to distinguish versions, useless for anything else. */
export function secretFingerprint(secret: string): string {
  return createHash("sha256").update(secret).digest("hex").slice(0, 8);
}
