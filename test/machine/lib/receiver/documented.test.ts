/** The receivers of docs/verify-webhooks.md accept a delivery and answer a ping on their platforms, and refuse a change. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { HttpRequest, HttpResponse, InvocationContext } from "@azure/functions";
import { getTestServer } from "@google-cloud/functions-framework/testing";
import { afterEach, expect, test } from "vitest";
import {
  afterJson,
  inExpress,
  inHono,
  inNext,
  onAzure,
  onGoogle,
  onLambda,
} from "#docs/examples/receiver-platforms.ts";
import type { WebhookEvent } from "#lib/receiver/index.ts";
import { delivery, SECRET } from "#test/support/library-delivery.ts";
import { type Answered, answerOf, base64, httpEvent, type Sent } from "#test/support/serverless-events.ts";

type Send = (sent: Sent) => Promise<Answered>;
type OnEvent = (event: WebhookEvent) => Promise<void>;

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) {
    close();
  }
});

async function served(listener: RequestListener): Promise<Send> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return async ({ path, headers, body }) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", headers, body });
    return { status: answer.status, body: await answer.text() };
  };
}

const webRequest = ({ path, headers, body }: Sent): Request =>
  new Request(`https://hooks.example${path}`, { method: "POST", headers, body });

const answered = async (response: Response): Promise<Answered> => ({
  status: response.status,
  body: await response.text(),
});

const PLATFORMS: readonly (readonly [name: string, open: (onEvent: OnEvent) => Send | Promise<Send>])[] = [
  ["Express", async (onEvent) => await served(inExpress(SECRET, onEvent))],
  ["Express after express.json()", async (onEvent) => await served(afterJson(SECRET, onEvent))],
  [
    "AWS Lambda",
    (onEvent) => async (sent) => answerOf(await onLambda(SECRET, onEvent)(httpEvent(base64)(sent), {})),
  ],
  [
    "Google Cloud Functions",
    async (onEvent) => {
      onGoogle(SECRET, onEvent);
      const [listener] = getTestServer("hook").listeners("request");
      return await served(listener as RequestListener);
    },
  ],
  [
    "Azure Functions",
    (onEvent) => {
      const handler = onAzure(SECRET, onEvent);
      return async ({ path, headers, body }) => {
        const url = `https://hooks.example${path}`;
        const request = new HttpRequest({
          method: "POST",
          url,
          headers: { ...headers },
          body: { bytes: body },
        });
        const answer = new HttpResponse(await handler(request, new InvocationContext()));
        return { status: answer.status, body: await answer.text() };
      };
    },
  ],
  ["Next.js", (onEvent) => async (sent) => await answered(await inNext(SECRET, onEvent)(webRequest(sent)))],
  [
    "Hono",
    (onEvent) => async (sent) => await answered(await inHono(SECRET, onEvent).request(webRequest(sent))),
  ],
];

function hook(more: Parameters<typeof delivery>[0]): Sent {
  const { body, headers } = delivery({ ...more, nowMs: Date.now() });
  return { path: "/hook", body, headers: { "content-type": "application/json", ...headers } };
}

test.each(PLATFORMS)("%s", async (_name, open) => {
  const ids: unknown[] = [];
  const send = await open(async ({ id }) => {
    ids.push(id);
    await Promise.resolve();
  });
  expect(await send(hook({ id: "evt_1" }))).toEqual({ status: 200, body: '{"processed":true}' });
  const ping = hook({ id: "evt_2", type: "ping", data: { challenge: "c1" } });
  expect(await send(ping)).toEqual({ status: 200, body: '{"challenge":"c1"}' });
  const changed = { ...hook({ id: "evt_3" }), body: hook({ id: "evt_4" }).body };
  expect(await send(changed)).toEqual({ status: 401, body: '{"error":"SIGNATURE_INVALID"}' });
  expect(ids).toEqual(["evt_1"]);
});
