import { spawn } from "node:child_process";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { AddressInfo, Server, Socket } from "node:net";
import { connect, createServer } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { HttpSender } from "../../../src/webhooks/sending/http-sender.ts";
import type { Receiver } from "../../support/receiver-server.ts";
import { startReceiver } from "../../support/receiver-server.ts";
import { startTcpProxy } from "../../support/tcp-proxy.ts";
import { createTestSender, requestTo } from "./http-fixtures.ts";

const DEADLINE_MS = 250;
/** Timers fire late on a busy machine; what would not be ended at all goes on for ever. */
const LATENESS_MS = 5_000;

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
  const result = await using.send(requestTo(url, { deadlineMs: DEADLINE_MS }));
  expect(result).toMatchObject({ status: null, error: "timeout", responseBody: null });
  expect(result.durationMs).toBeGreaterThanOrEqual(DEADLINE_MS - 5);
  expect(result.durationMs).toBeLessThan(DEADLINE_MS + LATENESS_MS);
}

describe("the deadline of a process that was kept busy beyond it", () => {
  /** A receiver on a thread of its own, which says when it has a request and answers while we do nothing. */
  async function receiverBesideUs(): Promise<{ url: string; thread: Worker }> {
    const thread = new Worker(
      `const { createServer } = require("node:http");
       const { parentPort } = require("node:worker_threads");
       const server = createServer((request, response) => {
         parentPort.postMessage("received");
         setTimeout(() => response.end("ok"), ${DEADLINE_MS / 5});
       });
       server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`,
      { eval: true },
    );
    const [port] = (await once(thread, "message")) as [number];
    return { url: `http://127.0.0.1:${port}/`, thread };
  }

  function doNothingFor(ms: number): void {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  }

  it("does not end what was answered in time", async () => {
    const { url, thread } = await receiverBesideUs();
    const sending = sender.send(requestTo(url, { deadlineMs: DEADLINE_MS }));
    await once(thread, "message");
    doNothingFor(2 * DEADLINE_MS);
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

  it("response headers that drip in, byte by byte", async () => {
    receiver.answer([{ kind: "drip-headers", everyMs: 10 }]);
    await expectTimeout(receiver.url);
    await receiver.waitForConnections(0);
  });

  it("informational responses that go on and on", async () => {
    receiver.answer([{ kind: "informational-flood", everyMs: 20 }]);
    await expectTimeout(receiver.url);
    await receiver.waitForConnections(0);
  });

  it("a name server that never answers", async () => {
    const stuck = createTestSender({ resolver: () => new Promise(() => {}) });
    await expectTimeout("http://hooks.example.com:3000/", stuck);
    await stuck.close();
  });

  it("a TLS handshake that never comes", async () => {
    const silent = await listen();
    await expectTimeout(`https://127.0.0.1:${portOf(silent.server)}/`);
    await silent.close();
  });

  it("a name server that answers too late, without connecting any more", async () => {
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

  it("the reading of a body, which does not change the outcome", async () => {
    receiver.answer([{ kind: "drip-body", everyMs: 10 }]);
    const before = Date.now();
    const result = await sender.send(requestTo(receiver.url));
    expect(result).toMatchObject({ status: 200, error: null });
    expect(result.responseBody).toMatch(/^x+$/);
    expect(Date.now() - before).toBeLessThan(200 + LATENESS_MS);
    await receiver.waitForConnections(0);
  });

  it("nothing that is in time", async () => {
    receiver.answer([{ kind: "answer", delayMs: 100 }]);
    expect(await sender.send(requestTo(receiver.url, { deadlineMs: 5_000 }))).toMatchObject({ status: 200 });
  });
});

interface Silent {
  readonly server: Server;
  close(): Promise<void>;
}

/** Accepts connections and says nothing. */
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

/** Answers everything with 200; has room for two connections that it has not accepted yet. */
const SLOW_TO_ACCEPT = `
  const server = require("node:http").createServer((request, response) => response.end("late"));
  server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => console.log(server.address().port));
`;

describe("a connect that takes seconds", () => {
  it("still succeeds: real SYNs, dropped by the kernel until the receiver accepts again", async () => {
    const child = spawn(process.execPath, ["-e", SLOW_TO_ACCEPT], { stdio: ["ignore", "pipe", "inherit"] });
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    const port = Number(line);
    const impatient = createTestSender();
    const url = `http://127.0.0.1:${port}/`;
    // The kernel completes handshakes for a stopped process until its backlog of one is exceeded.
    child.kill("SIGSTOP");
    const fillers = Array.from({ length: 2 }, () => connect(port, "127.0.0.1"));
    try {
      await Promise.all(fillers.map((socket) => once(socket, "connect")));
      const sending = sender.send(requestTo(url, { deadlineMs: 60_000 }));
      // Another sender's failure tells when the SYN of second 0 and its repetition of second 1 were both in vain.
      expect(await impatient.send(requestTo(url, { deadlineMs: 1_500 }))).toMatchObject({ error: "timeout" });
      child.kill("SIGCONT");

      const result = await sending;
      expect(result).toMatchObject({ status: 200, error: null, responseBody: "late" });
      expect(result.durationMs).toBeGreaterThan(1_400);
    } finally {
      fillers.forEach((socket) => socket.destroy());
      child.kill("SIGKILL");
      await Promise.all([once(child, "exit"), impatient.close()]);
    }
  });
});

it("loses one attempt to a kept connection that went dead, and sends the next one over another", async () => {
  const proxy = await startTcpProxy(receiver.port);
  const url = `http://127.0.0.1:${proxy.port}/`;
  try {
    expect(await sender.send(requestTo(url))).toMatchObject({ status: 200 });
    expect(sender.statistics()).toMatchObject({ idle: 1 });
    proxy.blackHole();
    await expectTimeout(url);
    expect(await sender.send(requestTo(url))).toMatchObject({ status: 200 });
    expect(sender.statistics()).toMatchObject({ opened: 2, reused: 1 });
  } finally {
    await sender.close();
    await proxy.close();
  }
});
