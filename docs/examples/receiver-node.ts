import type { Server } from "node:http";
// region receiver
import { createServer } from "node:http";
import { type WebhookEvent, webhookListener } from "../../src/lib/receiver/index.ts"; // "@signet-delivery/client/receiver"

export function createHook(secret: string, onEvent: (event: WebhookEvent) => Promise<void>): Server {
  return createServer(webhookListener({ secrets: [secret], onEvent })); // answers every request itself
}
// endregion
