/** Where an endpoint's secret is kept, and what may be shown of it. */
import { createHash } from "node:crypto";
import { envelopeAad } from "./envelope.ts";

/** The place of a secret in the additional data of its envelope. */
export function secretAad(tenantId: string, endpointId: string, version: number): string {
  return envelopeAad("endpoint_secrets", tenantId, endpointId, version);
}

/** The place of an Ed25519 private key in the additional data of its envelope. */
export function signingKeyAad(tenantId: string, endpointId: string, version: number): string {
  return envelopeAad("endpoint_signing_keys", tenantId, endpointId, version);
}

/** The first 8 hex digits of a secret's SHA-256: enough to tell versions apart, useless for anything else. */
export function secretFingerprint(secret: string): string {
  return createHash("sha256").update(secret).digest("hex").slice(0, 8);
}
