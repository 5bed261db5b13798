/** Signed deliveries for the receivers of our own library. */
import { signDelivery } from "#lib/receiver/sign.ts";

export const NOW_MS = 1_763_650_000_000;
export const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

/** Returns the headers of a signed body. */
export function signedHeaders(body: Uint8Array, id = "evt_1", timestampSeconds = NOW_MS / 1_000) {
  const { sha256, v1 } = signDelivery({ secret: SECRET, body, id, timestampSeconds });
  return {
    "x-service-signature-256": sha256,
    "x-service-timestamp": String(timestampSeconds),
    "webhook-id": id,
    "webhook-timestamp": String(timestampSeconds),
    "webhook-signature": v1,
  };
}

/** Returns a signed delivery. */
export function delivery({
  id = "evt_1",
  type = "a.b",
  source,
  data = {},
  nowMs = NOW_MS,
}: { id?: string; type?: string; source?: string; data?: object; nowMs?: number } = {}) {
  const timestampSeconds = Math.floor(nowMs / 1_000);
  const body = Buffer.from(JSON.stringify({ id, type, source, sent_at: timestampSeconds, data }));
  return { body, headers: signedHeaders(body, id, timestampSeconds) };
}
