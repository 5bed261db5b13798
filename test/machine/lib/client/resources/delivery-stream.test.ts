/** The stream of deliveries: connections end, the caller's loop continues. */
import type { ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Delivery } from "#lib/client/api-types.ts";
import type { DeliveryStream } from "#lib/client/resources/delivery-stream.ts";
import { eventually } from "#test/support/eventually.ts";
import { type ScriptedServer, startScriptedServer, wireDelivery } from "#test/support/scripted-server.ts";

let server: ScriptedServer;

beforeEach(async () => {
  server = await startScriptedServer();
});
afterEach(async () => {
  await server.close();
});

function begin(response: ServerResponse): ServerResponse {
  return response.writeHead(200, { "content-type": "text/event-stream" });
}
const ready = (data: object = {}): string => `event: ready\ndata: ${JSON.stringify(data)}\n\n`;
const deliveryBlock = (delivery: object): string => `event: delivery\ndata: ${JSON.stringify(delivery)}\n\n`;
const position = (id: number): string => `id: ${id}\n: still here\n\n`;
const end = (reason: string): string => `event: end\ndata: {"reason":"${reason}"}\n\n`;

async function take(stream: DeliveryStream, count: number): Promise<string[]> {
  const taken: string[] = [];
  for await (const { id, attempt_count: attempts } of stream) {
    taken.push(`${id}/${attempts}`);
    if (taken.length === count) {
      break;
    }
  }
  return taken;
}

test("an expired token leads to a connection that resumes at the last position and repeats nothing", async () => {
  server.answers.push(
    (_request, response) => {
      const blocks =
        ready() + deliveryBlock(wireDelivery("a")) + position(1_000) + deliveryBlock(wireDelivery("b"));
      begin(response).end(blocks + end("expired"));
    },
    (_request, response) => {
      // Everything after the position is sent again; only part of it is new.
      const blocks =
        ready({ complete: true }) + deliveryBlock(wireDelivery("b")) + deliveryBlock(wireDelivery("b", 1));
      begin(response).write(blocks + position(2_000));
    },
  );
  const stream = server.client().deliveries.stream();
  expect(await take(stream, 3)).toEqual(["a/0", "b/0", "b/1"]);
  expect(server.requests.map(({ headers }) => headers["last-event-id"])).toEqual([undefined, "1000"]);
  // The caller stopped before it asked for anything after the last one.
  expect(stream.lastEventId).toBe("1000");
  expect(server.runtime.sleeps).toEqual([]);
  expect(server.runtime.warnings).toEqual([]);
});

test("a connection that breaks off in the middle of a block, and an outage, are survived", async () => {
  server.answers.push(
    (_request, response) => {
      begin(response).write(
        `retry: 2000\n\n${ready()}${deliveryBlock(wireDelivery("a"))}${position(7)}event: deliv`,
      );
      setImmediate(() => response.destroy());
    },
    ...Array.from({ length: 6 }, () => (_request: unknown, response: ServerResponse) => {
      response.writeHead(503).end();
    }),
    (_request, response) => {
      begin(response).write(ready({ complete: false }) + deliveryBlock(wireDelivery("c")));
    },
  );
  const stream = server.client({ retry: { attempts: 1 } }).deliveries.stream({ lastEventId: "5" });
  expect(await take(stream, 2)).toEqual(["a/0", "c/0"]);
  const positions = server.requests.map(({ headers }) => headers["last-event-id"]);
  expect(positions).toEqual(["5", ...Array.from({ length: 7 }, () => "7")]);
  expect(server.runtime.warnings.map(({ code }) => code)).toEqual([
    "STREAM_INTERRUPTED",
    "DELIVERIES_MISSED",
  ]);
  // With this chance: three quarters of 2, 4, 8, 16 and then 30 seconds.
  expect(server.runtime.sleeps).toEqual([1_500, 3_000, 6_000, 12_000, 22_500, 22_500, 22_500]);
});

describe("it ends", () => {
  test("with the service's rejection, which names what is missing", async () => {
    server.answers.push((_request, response) => {
      const problem = { code: "SCOPE_VIOLATION", detail: "webhooks:read", request_id: "req_1" };
      response.writeHead(403, { "content-type": "application/problem+json" }).end(JSON.stringify(problem));
    });
    await expect(take(server.client().deliveries.stream(), 1)).rejects.toMatchObject({
      code: "SCOPE_VIOLATION",
      requestId: "req_1",
    });
  });

  test("when there is no answer from the start", async () => {
    const away = server.client({ baseUrl: "http://127.0.0.1:1", retry: { attempts: 1 } });
    await expect(take(away.deliveries.stream(), 1)).rejects.toMatchObject({ code: "CONNECTION" });
  });

  test("with a response that is not an event stream", async () => {
    server.answers.push((_request, response) => {
      response.writeHead(200, { "content-type": "text/html" }).end("<p>Welcome</p>");
    });
    await expect(take(server.client().deliveries.stream(), 1)).rejects.toMatchObject({
      code: "INVALID_ANSWER",
    });
  });

  test("with an event that never ends, without buffering it", async () => {
    server.answers.push((_request, response) => {
      begin(response).write(`${ready()}data: `);
      const more = (): void => {
        while (!response.destroyed && response.write("x".repeat(65_536))) {
          // Reads as much as is accepted.
        }
      };
      response.on("drain", more);
      more();
    });
    await expect(take(server.client().deliveries.stream(), 1)).rejects.toMatchObject({
      code: "INVALID_ANSWER",
    });
  });

  test("with the signal's reason, while it waits for events, and closes the connection", async () => {
    let closed = false;
    server.answers.push((request, response) => {
      request.socket.once("close", () => (closed = true));
      begin(response).write(ready());
    });
    const abort = new AbortController();
    const taking = take(server.client().deliveries.stream({ signal: abort.signal }), 1);
    await eventually(async () => await Promise.resolve(server.requests.length === 1), "the connection");
    abort.abort(new Error("enough"));
    await expect(taking).rejects.toThrow("enough");
    await eventually(async () => await Promise.resolve(closed), "the connection's end");
  });

  test("when its loop is left", async () => {
    let closed = false;
    server.answers.push((request, response) => {
      request.socket.once("close", () => (closed = true));
      begin(response).write(ready() + deliveryBlock(wireDelivery("a")));
    });
    expect(await take(server.client().deliveries.stream(), 1)).toEqual(["a/0"]);
    await eventually(async () => await Promise.resolve(closed), "the connection's end");
  });
});

test("for a slow loop the stream reads no more than sockets hold", async () => {
  let written = 0;
  const block = deliveryBlock({ ...wireDelivery("a"), padding: "x".repeat(65_536) });
  server.answers.push((_request, response) => {
    begin(response).write(ready());
    const more = (): void => {
      written += block.length;
      while (!response.destroyed && response.write(block)) {
        written += block.length;
      }
    };
    response.on("drain", more);
    more();
  });
  const abort = new AbortController();
  const deliveries = server.client().deliveries.stream({ signal: abort.signal })[Symbol.asyncIterator]();
  const first = (await deliveries.next()) as { readonly value: Delivery };
  expect(first.value.id).toBe("a");
  let before = -1;
  await eventually(async () => {
    const still = written === before;
    before = written;
    await delay(100);
    return still;
  }, "the writer's standstill");
  expect(written).toBeLessThan(32_000_000);
  await deliveries.return();
});
