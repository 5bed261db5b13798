import { spawn } from "node:child_process";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { AddressInfo, Server, Socket } from "node:net";
import { connect, createServer } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { HttpSender } from "#webhooks/sending/http-sender.ts";
import { PATIENCE_MS } from "#test/support/eventually.ts";
import { withoutPause } from "#test/support/pauses.ts";
import type { Receiver } from "#test/support/receiver-server.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import { startTcpProxy } from "#test/support/tcp-proxy.ts";
import { createTestSender, requestTo } from "./http-fixtures.ts";

const DEADLINE_MS = 250;
/** How late a timer may fire. Without a deadline the request would never end. */
const LATENESS_MS = 750;

let receiver: Receiver;
let sender: HttpSender;

beforeEach(async () => {
  receiver = await startReceiver();
  sender = createTestSender({ bodyMs: 200 });
});
afterEach(async () => {
  await sender.close();
  await receiver.close();
});

async function expectTimeout(url: string, using = sender): Promise<void> {
  await withoutPause(async () => {
    const result = await using.send(requestTo(url, { deadlineMs: DEADLINE_MS }));
    expect(result).toMatchObject({ status: null, error: "timeout", responseBody: null });
    expect(result.durationMs).toBeGreaterThanOrEqual(DEADLINE_MS - 5);
    expect(result.durationMs).toBeLessThan(DEADLINE_MS + LATENESS_MS);
  });
}

describe("the deadline of a process that is blocked beyond it", () => {
  /** The request must arrive before. */
  const BLOCKED_BEYOND_MS = 3_000;
  /** Places of the flags that the threads share. */
  const [BLOCKED, ANSWERED, NEVER] = [0, 1, 2];

  /** Starts a receiver in its own thread, which reports each request and answers once this thread is blocked. */
  async function receiverInThread(flags: Int32Array): Promise<{ url: string; thread: Worker }> {
    const thread = new Worker(
      `const { createServer } = require("node:http");
       const { parentPort, workerData: flags } = require("node:worker_threads");
       const server = createServer((request, response) => {
         parentPort.postMessage("received");
         Atomics.wait(flags, ${BLOCKED}, 0);
         response.end("ok", () => {
           Atomics.store(flags, ${ANSWERED}, 1);
           Atomics.notify(flags, ${ANSWERED});
         });
       });
       server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`,
      { eval: true, workerData: flags },
    );
    const [port] = (await once(thread, "message")) as [number];
    return { url: `http://127.0.0.1:${port}/`, thread };
  }

  it("does not fail a request that was answered in time", async () => {
    const flags = new Int32Array(new SharedArrayBuffer(12));
    const { url, thread } = await receiverInThread(flags);
    const sending = sender.send(requestTo(url, { deadlineMs: BLOCKED_BEYOND_MS }));
    await once(thread, "message");
    Atomics.store(flags, BLOCKED, 1);
    Atomics.notify(flags, BLOCKED);
    expect(Atomics.wait(flags, ANSWERED, 0, PATIENCE_MS)).not.toBe("timed-out");
    Atomics.wait(flags, NEVER, 0, BLOCKED_BEYOND_MS);
    expect(await sending).toMatchObject({ status: 200, error: null });
    await thread.terminate();
  });
});

describe("the deadline ends", () => {
  it("a request that is never answered, and its connection", async () => {
    receiver.answer([{ kind: "hang" }]);
    await expectTimeout(receiver.url);
    await receiver.waitForConnections(0);
    expect(sender.statistics()).toMatchObject({ idle: 0, inUse: 0 });
  });

  it("response headers that arrive byte by byte", async () => {
    receiver.answer([{ kind: "drip-headers", everyMs: 10 }]);
    await expectTimeout(receiver.url);
    await receiver.waitForConnections(0);
  });

  it("endless informational responses", async () => {
    receiver.answer([{ kind: "informational-flood", everyMs: 20 }]);
    await expectTimeout(receiver.url);
    await receiver.waitForConnections(0);
  });

  it("a name server that never answers", async () => {
    const stuck = createTestSender({ resolver: () => new Promise(() => {}) });
    await expectTimeout("http://hooks.example.com:3000/", stuck);
    await stuck.close();
  });

  it("a missing TLS handshake", async () => {
    const silent = await listen();
    await expectTimeout(`https://127.0.0.1:${portOf(silent.server)}/`);
    await silent.close();
  });

  it("a name server that answers too late, without opening a connection", async () => {
    let answerLate = (_addresses: readonly string[]): void => {};
    const late = createTestSender({
      resolver: () =>
        new Promise((resolve) => {
          answerLate = resolve;
        }),
    });
    await expectTimeout(`http://hooks.example.com:${receiver.port}/`, late);
    answerLate(["127.0.0.1"]);
    await late.close();
    await sender.send(requestTo(receiver.url));
    expect(receiver.connections).toBe(1);
  });

  it("the reading of a body, without changing the outcome", async () => {
    receiver.answer([{ kind: "drip-body", everyMs: 10 }]);
    await withoutPause(async () => {
      const before = Date.now();
      const result = await sender.send(requestTo(receiver.url));
      expect(result).toMatchObject({ status: 200, error: null });
      expect(result.responseBody).toMatch(/^x+$/);
      expect(Date.now() - before).toBeLessThan(200 + LATENESS_MS);
    });
    await receiver.waitForConnections(0);
  });

  it("nothing that is in time", async () => {
    receiver.answer([{ kind: "answer", delayMs: 100 }]);
    expect(await sender.send(requestTo(receiver.url))).toMatchObject({ status: 200 });
  });
});

interface Silent {
  readonly server: Server;
  close(): Promise<void>;
}

/** Accepts connections and never writes. */
async function listen(): Promise<Silent> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    server,
    async close() {
      for (const socket of sockets) {
        socket.destroy();
      }
      server.close();
      await once(server, "close");
    },
  };
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

/** Answers every request with 200; its backlog holds two unaccepted connections. */
const SLOW_TO_ACCEPT = `
  const server = require("node:http").createServer((request, response) => response.end("late"));
  server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => console.log(server.address().port));
`;

describe("a connect that takes seconds", () => {
  it("succeeds after the kernel dropped its SYNs until the receiver accepted again", async () => {
    const child = spawn(process.execPath, ["-e", SLOW_TO_ACCEPT], { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    const port = Number(line);
    const secondSender = createTestSender();
    const url = `http://127.0.0.1:${port}/`;
    // The kernel completes handshakes for a stopped process until its backlog overflows.
    child.kill("SIGSTOP");
    const fillers = Array.from({ length: 2 }, () => connect(port, "127.0.0.1"));
    try {
      await Promise.all(fillers.map((socket) => once(socket, "connect")));
      const sending = sender.send(requestTo(url, { deadlineMs: 60_000 }));
      // When this second sender times out, the SYNs of seconds 0 and 1 were both dropped.
      expect(await secondSender.send(requestTo(url, { deadlineMs: 1_500 }))).toMatchObject({
        error: "timeout",
      });
      child.kill("SIGCONT");

      const result = await sending;
      expect(result).toMatchObject({ status: 200, error: null, responseBody: "late" });
      expect(result.durationMs).toBeGreaterThan(1_400);
    } finally {
      fillers.forEach((socket) => socket.destroy());
      child.kill("SIGKILL");
      await Promise.all([once(child, "exit"), secondSender.close()]);
    }
  });
});

it("a dead idle connection costs one attempt, and the next one uses another connection", async () => {
  await withoutPause(async () => {
    const proxy = await startTcpProxy(receiver.port);
    const own = createTestSender();
    const url = `http://127.0.0.1:${proxy.port}/`;
    try {
      expect(await own.send(requestTo(url))).toMatchObject({ status: 200 });
      expect(own.statistics()).toMatchObject({ idle: 1 });
      proxy.blackHole();
      await expectTimeout(url, own);
      expect(await own.send(requestTo(url))).toMatchObject({ status: 200 });
      expect(own.statistics()).toMatchObject({ opened: 2, reused: 1 });
    } finally {
      await own.close();
      await proxy.close();
    }
  });
});
