/** Publishes an event with a producer's signature; shown in docs/signed-producers.md. */
import { createHmac } from "node:crypto";

export async function publishSigned(
  { url, credentialId, secret }: { url: string; credentialId: string; secret: string },
  event: { id: string; type: string; data: object },
): Promise<Response> {
  const now = Math.floor(Date.now() / 1000);
  const body = JSON.stringify({ ...event, sent_at: now });
  return await fetch(`${url}/v1/events`, {
    method: "POST",
    body,
    headers: {
      "content-type": "application/json",
      "x-service-key-id": credentialId,
      "x-service-timestamp": String(now),
      "x-service-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`,
    },
  });
}
