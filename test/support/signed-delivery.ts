/** Loads, decrypts and signs one delivery with the engine's own parts, without sending it. */
import { randomBytes } from "node:crypto";
import { createPool } from "#database/pool.ts";
import { loadForAttempt } from "#database/repositories/webhooks/attempts.ts";
import { createSecretOpener } from "#webhooks/sending/open-secrets.ts";
import { Signer } from "#webhooks/sending/signer.ts";
import { newId } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import type { TestApi } from "./api.ts";
import { testKeyring } from "./keyring.ts";
import { publish, sql, type Tenant } from "./tenant.ts";

export interface SignedDelivery {
  readonly body: Buffer;
  readonly headers: Record<string, string>;
  /** Time of the signature, in Unix milliseconds. */
  readonly atMs: number;
}

/** Returns the keyring of the API under test. */
export function keyringOf(api: TestApi): ReturnType<typeof testKeyring> {
  return testKeyring(Buffer.from(api.environment["SIGNET_KEK"] ?? "", "base64"));
}

/** Publishes an event and signs its delivery to the endpoint, at the time of the API under test. */
export async function signDeliveryNow(
  api: TestApi,
  tenant: Tenant,
  endpointId: string,
): Promise<SignedDelivery> {
  const event = await publish(tenant);
  const carrier = newId("delivery", Date.now(), randomBytes);
  const [delivery] = await sql<{ id: string; epoch: number }>(
    api,
    "UPDATE deliveries SET carrier = $3 WHERE event_id = $1 AND endpoint_id = $2 RETURNING id, epoch",
    [event, endpointId, carrier],
  );
  const pool = createPool({
    url: api.database.url,
    role: "signet_worker",
    max: 1,
    log: createLogger({ level: "error" }),
  });
  try {
    const key = { deliveryId: delivery?.id ?? "", carrier, epoch: delivery?.epoch ?? 0, attempt: 1 };
    const [loaded] = await loadForAttempt(pool, [key]);
    if (loaded === undefined) {
      throw new Error("the delivery was not found");
    }
    const atMs = api.clock.now();
    const timestampSeconds = Math.floor(atMs / 1_000);
    const body = Buffer.from(JSON.stringify({ id: event, sent_at: timestampSeconds }));
    const signer = new Signer({ headerBrand: "Service", docsUrl: "https://signet.example/docs" });
    const headers = signer.headers({
      ...(await createSecretOpener(keyringOf(api), api.clock)(loaded)),
      body,
      eventId: event,
      eventType: "inference.completed",
      deliveryId: key.deliveryId,
      attempt: 1,
      timestampSeconds,
    });
    return { body, headers, atMs };
  } finally {
    await pool.end();
  }
}
