import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadConfig } from "#config/config.ts";
import type { HttpSender } from "#webhooks/sending/http-sender.ts";
import { PATIENCE_MS } from "#test/support/eventually.ts";
import type { Receiver } from "#test/support/receiver-server.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import { createTestSender, requestTo } from "./http-fixtures.ts";

let receiver: Receiver;
let sender: HttpSender;

beforeEach(async () => {
  receiver = await startReceiver();
  sender = createTestSender();
});
afterEach(async () => {
  await sender.close();
  await receiver.close();
});

async function sendMany(count: number, concurrency: number, url = receiver.url): Promise<void> {
  let left = count;
  const lane = async () => {
    while (left > 0) {
      left -= 1;
      expect(await sender.send(requestTo(url))).toMatchObject({ status: 200, error: null });
    }
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
}

describe("connections", () => {
  it("are reused: a hundred consecutive requests need one", async () => {
    await sendMany(100, 1);
    expect(receiver.connections).toBe(1);
    expect(sender.statistics()).toEqual({ opened: 1, reused: 99, idle: 1, inUse: 0, origins: 1 });
  });

  it("are no more than concurrent requests", async () => {
    await sendMany(500, 10);
    expect(receiver.connections).toBe(10);
  });

  it("are reused after error statuses", async () => {
    receiver.answer(
      [500, 404, 302, 200].map((status) => ({ kind: "answer", status, body: "x".repeat(50_000) })),
    );
    for (let count = 0; count < 4; count += 1) {
      await sender.send(requestTo(receiver.url));
    }
    expect(receiver.connections).toBe(1);
  });

  it("are not reused if the receiver closes them after each response", async () => {
    receiver.answer([{ kind: "answer", headers: { Connection: "close" } }]);
    await sendMany(20, 2);
    expect(receiver.connections).toBe(20);
    await receiver.waitForConnections(0);
    expect(sender.statistics().idle).toBe(0);
  });

  it("are not reused if the receiver announces a timeout below one second", async () => {
    receiver.answer([{ kind: "answer", headers: { "Keep-Alive": "timeout=1" } }]);
    await sendMany(3, 1);
    expect(receiver.connections).toBe(3);
  });

  it("are discarded if the receiver closed them while idle", async () => {
    await sendMany(10, 5);
    receiver.closeIdleConnections();
    await expect.poll(() => sender.statistics(), { timeout: 50_000 }).toMatchObject({ idle: 0, origins: 0 });
    await sendMany(1, 1);
  });

  it("stay within the limits across any number of origins, closing the least recently used first", async () => {
    await sender.close();
    sender = createTestSender({
      maxIdleConnections: 4,
      maxIdlePerOrigin: 2,
      resolver: async () => ["127.0.0.1"],
    });
    const origin = (name: number) => `http://host-${name}.example.com:${receiver.port}/`;
    for (let name = 0; name < 30; name += 1) {
      await sendMany(1, 1, origin(name));
    }
    await receiver.waitForConnections(4);
    expect(sender.statistics()).toMatchObject({ opened: 30, idle: 4, origins: 4 });
    await sendMany(1, 1, origin(26));
    await sendMany(1, 1, origin(30));
    await sendMany(1, 1, origin(26));
    expect(sender.statistics()).toMatchObject({ opened: 31, reused: 2 });
    await sendMany(8, 8, origin(40));
    expect(sender.statistics()).toMatchObject({ idle: 4, origins: 3 });
    await receiver.waitForConnections(4);
  });

  it("to 1,500 receivers in turn stay open by the default setting", async () => {
    await sender.close();
    sender = createTestSender({
      maxIdleConnections: loadConfig({ SIGNET_ENV: "development" }).idleConnections,
      resolver: async () => ["127.0.0.1"],
    });
    const receivers = 1_500;
    // The receiver announces a longer time, so that a busy machine may take longer than 4 s for a round.
    receiver.answer([{ kind: "answer", headers: { "Keep-Alive": "timeout=60" } }]);
    const round = async (): Promise<void> => {
      for (let name = 0; name < receivers; name += 50) {
        const urls = Array.from(
          { length: 50 },
          (_, n) => `http://r${name + n}.example.com:${receiver.port}/`,
        );
        await Promise.all(urls.map(async (url) => await sendMany(1, 1, url)));
      }
    };
    await round();
    await round();
    expect(sender.statistics()).toMatchObject({ opened: receivers, reused: receivers });
  });

  it("are separate per origin, even for another name with the same address", async () => {
    await sender.close();
    sender = createTestSender({ resolver: async () => ["127.0.0.1"] });
    await sendMany(1, 1, `http://a.example.com:${receiver.port}/`);
    await sendMany(1, 1, `http://b.example.com:${receiver.port}/`);
    expect(receiver.connections).toBe(2);
  });
});

/**
 * A receiver in its own thread. It answers, and on request closes its connection while this thread is blocked:
 * our kernel then knows that the connection has ended, but Node does not.
 */
const CLOSES_ON_COMMAND = `
  const { parentPort, workerData } = require("node:worker_threads");
  const flag = new Int32Array(workerData.flag);
  let current, requests = 0, connections = 0;
  const server = require("node:net").createServer((socket) => {
    connections += 1;
    current = socket;
    socket.on("error", () => {});
    socket.on("data", () => {
      requests += 1;
      socket.write("HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok");
    });
  });
  parentPort.on("message", (how) => {
    if (how === "count") { parentPort.postMessage({ requests, connections }); return; }
    current.once("close", () => { Atomics.store(flag, 0, 1); Atomics.notify(flag, 0); });
    if (how === "reset") current.resetAndDestroy(); else current.destroy();
  });
  server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
`;

describe("an idle connection that the receiver closes just before the next request", () => {
  it.each(["close", "reset"])(
    "by a %s costs no attempt: nothing was written, so a fresh connection is used",
    async (how) => {
      const flag = new SharedArrayBuffer(4);
      const worker = new Worker(CLOSES_ON_COMMAND, { eval: true, workerData: { flag } });
      const [port] = (await once(worker, "message")) as [number];
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
      const command = (what: string) => worker.postMessage(what);
      const url = `http://127.0.0.1:${port}/`;
      for (let repetition = 1; repetition <= 20; repetition += 1) {
        expect(await sender.send(requestTo(url))).toMatchObject({ status: 200, error: null });
        expect(sender.statistics().idle).toBe(1);
        command(how);
        Atomics.wait(new Int32Array(flag), 0, 0, PATIENCE_MS);
        new Int32Array(flag)[0] = 0;
        expect(await sender.send(requestTo(url))).toMatchObject({
          status: 200,
          error: null,
          responseBody: "ok",
        });
        command("count");
        const [count] = (await once(worker, "message")) as [unknown];
        expect(count).toEqual({ requests: 2 * repetition, connections: repetition + 1 });
      }
      await worker.terminate();
    },
  );
});

describe("a receiver that hangs up after each response, unannounced", () => {
  it.each(["end", "destroy", "resetAndDestroy"] as const)("by %s() loses no delivery", async (how) => {
    // In the sender's own thread, so that the end follows the answer before the sender goes on. A request that comes
    // between the two would rightly be aborted.
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.on("data", () => {
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        socket[how]();
      });
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    await sendMany(60, 2, `http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    expect(sender.statistics().opened).toBe(60);
    server.close();
  });
});

describe("a reused connection that breaks after the request was written", () => {
  it.each(["close", "reset"] as const)(
    "by a %s aborts the attempt, because the receiver may have read the request",
    async (kind) => {
      receiver.answer([{ kind: "answer" }, { kind }, { kind: "answer" }]);
      await sendMany(1, 1);
      expect(await sender.send(requestTo(receiver.url))).toMatchObject({ status: null, error: "aborted" });
      expect(receiver.requests).toHaveLength(2);
      await sendMany(1, 1);
      expect(receiver.requests.map(({ connection }) => connection)).toEqual([1, 1, 2]);
    },
  );
});
