import type { FastifyInstance } from "fastify";
// region receiver
import { fastify } from "fastify";
import { type WebhookEvent, webhookPlugin } from "../../src/lib/receiver/index.ts"; // "@signet-delivery/client/receiver"

export function createHook(secret: string, onEvent: (event: WebhookEvent) => Promise<void>): FastifyInstance {
  const app = fastify();
  app.register(webhookPlugin, { path: "/hook", secrets: [secret], onEvent });
  return app;
}
// endregion
