/** The receiver of `signet listen`: what it passes on of the user's program's answer. */
import { expect, test } from "vitest";
import { forwardUrl } from "#cli/client/listen.ts";
import { LocalReceiver } from "#cli/client/local-receiver.ts";
import { signDelivery } from "#lib/receiver/sign.ts";

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const NOW_S = 1_764_000_000;

test("of an endless answer of the user's program it reads and passes on the first 64 KiB", async () => {
  let read = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      read += 4_096;
      controller.enqueue(new Uint8Array(4_096));
    },
  });
  const receiver = await LocalReceiver.start({
    port: 0,
    now: () => NOW_S * 1_000,
    fetch: async () => await Promise.resolve(new Response(endless)),
    forwardTo: "http://127.0.0.1:1/hook",
    onDelivery: () => undefined,
    onForwardFailure: () => undefined,
  });
  receiver.setSecret(SECRET);
  const body = Buffer.from(JSON.stringify({ id: "evt_1", sent_at: NOW_S, data: {} }));
  const { v1 } = signDelivery({ secret: SECRET, body, id: "evt_1", timestampSeconds: NOW_S });
  const answer = await fetch(receiver.url, {
    method: "POST",
    headers: {
      "webhook-id": "evt_1",
      "webhook-timestamp": String(NOW_S),
      "webhook-signature": v1,
    },
    body,
  });
  expect([answer.status, (await answer.arrayBuffer()).byteLength]).toEqual([200, 65_536]);
  expect(read).toBeLessThan(80_000);
  await receiver.close();
});

test("an address without a scheme is forwarded to over http, and a port or a path alone on this machine", () => {
  const addresses = {
    "localhost:3000/hook": "http://localhost:3000/hook",
    "127.0.0.1:3000": "http://127.0.0.1:3000",
    "[::1]:3000": "http://[::1]:3000",
    "app.local": "http://app.local",
    "https://a.example/": "https://a.example/",
    "3000": "http://localhost:3000",
    "3000/hook?a=b": "http://localhost:3000/hook?a=b",
    ":3000": "http://localhost:3000",
    "/hook": "http://localhost/hook",
    "300.example": "http://300.example",
  };
  expect(Object.keys(addresses).map(forwardUrl)).toEqual(Object.values(addresses));
  expect(forwardUrl(undefined)).toBeUndefined();
});
