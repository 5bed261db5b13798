/** Receivers in frameworks and on platforms, as docs/verify-webhooks.md shows them. */
import { app as azure, type HttpHandler } from "@azure/functions";
import { http } from "@google-cloud/functions-framework";
import express, { type Express } from "express";
import { Hono } from "hono";
import serverlessHttp from "serverless-http";
import { type WebhookEvent, webhookHandler, webhookListener } from "../../src/lib/receiver/index.ts";

/** Stores the event. */
type OnEvent = (event: WebhookEvent) => Promise<void>;

export function inExpress(secret: string, onEvent: OnEvent): Express {
  // region express
  const app = express();
  app.post("/hook", webhookListener({ secrets: secret, onEvent }));
  // endregion
  return app;
}

export function afterJson(secret: string, onEvent: OnEvent): Express {
  const app = express();
  // region raw-body
  app.use(
    express.json({ verify: (request, _response, bytes) => Object.assign(request, { rawBody: bytes }) }),
  );
  app.post("/hook", webhookListener({ secrets: secret, onEvent }));
  // endregion
  return app;
}

export function onLambda(secret: string, onEvent: OnEvent): serverlessHttp.Handler {
  // region lambda
  const handler = serverlessHttp(webhookListener({ secrets: secret, onEvent }));
  // endregion
  return handler;
}

export function onGoogle(secret: string, onEvent: OnEvent): void {
  // region google
  http("hook", webhookListener({ secrets: secret, onEvent }));
  // endregion
}

export function onAzure(secret: string, onEvent: OnEvent): HttpHandler {
  // region azure
  const handler = webhookHandler({ secrets: secret, onEvent });
  azure.http("hook", { methods: ["POST"], authLevel: "anonymous", handler });
  // endregion
  return handler;
}

export function inNext(secret: string, onEvent: OnEvent): (request: Request) => Promise<Response> {
  // region next
  const POST = webhookHandler({ secrets: secret, onEvent }); // export it from app/hook/route.ts
  // endregion
  return POST;
}

export function inHono(secret: string, onEvent: OnEvent): Hono {
  const app = new Hono();
  // region hono
  const handle = webhookHandler({ secrets: secret, onEvent });
  app.post("/hook", (context) => handle(context.req.raw));
  // endregion
  return app;
}
