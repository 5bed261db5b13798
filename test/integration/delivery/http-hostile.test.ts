import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { HttpSender } from "#webhooks/sending/http-sender.ts";
import type { Behaviour, Receiver } from "#test/support/receiver-server.ts";
import { PATIENCE_MS } from "#test/support/eventually.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import { createTestSender, requestTo } from "./http-fixtures.ts";

let receiver: Receiver;
let sender: HttpSender;

beforeEach(async () => {
  receiver = await startReceiver();
  sender = createTestSender({ bodyMs: 1_000 });
});
afterEach(async () => {
  await sender.close();
  await receiver.close();
});

describe("a receiver that violates the protocol", () => {
  const aborted: readonly (readonly [string, Behaviour])[] = [
    ["resets the connection", { kind: "reset" }],
    ["hangs up", { kind: "close" }],
    ["speaks another protocol", { kind: "raw", bytes: "220 smtp.example ESMTP\r\n", close: true }],
    ["hangs up within its headers", { kind: "raw", bytes: "HTTP/1.1 200 OK\r\nX-A: b", close: true }],
    [
      "sends 16 KiB of headers",
      { kind: "raw", bytes: `HTTP/1.1 200 OK\r\nX-Long: ${"x".repeat(16_384)}\r\n\r\n` },
    ],
    [
      "sends thousands of headers",
      { kind: "raw", bytes: `HTTP/1.1 200 OK\r\n${"X-A: b\r\n".repeat(5_000)}\r\n` },
    ],
    [
      "switches protocols",
      { kind: "raw", bytes: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" },
    ],
    [
      "sends 100 Continue and then nothing",
      { kind: "raw", bytes: "HTTP/1.1 100 Continue\r\n\r\n", close: true },
    ],
    ["floods with informational responses", { kind: "informational-flood", everyMs: 0 }],
    [
      "sends two lengths",
      { kind: "raw", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab" },
    ],
    [
      "sends a length and chunks",
      {
        kind: "raw",
        bytes: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      },
    ],
  ];
  it.each(aborted)("and %s aborts the attempt before its deadline", async (_what, behaviour) => {
    receiver.answer([behaviour]);
    const result = await sender.send(requestTo(receiver.url));
    expect(result).toMatchObject({ status: null, error: "aborted", responseBody: null });
    await receiver.waitForConnections(0);
    expect(receiver.requests).toHaveLength(1);
  });

  it("does not affect the next delivery", async () => {
    receiver.answer([...aborted.map(([, behaviour]) => behaviour), { kind: "answer", body: "fine" }]);
    for (let count = 0; count < aborted.length; count += 1) {
      await sender.send(requestTo(receiver.url));
    }
    expect(await sender.send(requestTo(receiver.url))).toMatchObject({ status: 200, responseBody: "fine" });
  });

  it("and sends an unrequested second response loses its connection, not the next delivery", async () => {
    const answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";
    receiver.answer([
      { kind: "raw", bytes: answer + answer.replace("one", "two") },
      { kind: "answer", body: "three" },
    ]);
    expect(await sender.send(requestTo(receiver.url))).toMatchObject({ responseBody: "one" });
    expect(await sender.send(requestTo(receiver.url))).toMatchObject({ responseBody: "three" });
  });
});

describe("an endless receiver", () => {
  it("is read up to 64 KiB, of which 4 are kept, and disconnected", async () => {
    receiver.answer([{ kind: "endless-body" }]);
    const result = await sender.send(requestTo(receiver.url));
    expect(result).toMatchObject({ status: 200, error: null, responseBody: "x".repeat(4096) });
    await receiver.waitForConnections(0);
  });

  it("that sends a gzip bomb is stored without decompression", async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000));
    const bytes = Buffer.concat([
      Buffer.from(`HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n\r\n`),
      bomb,
    ]);
    receiver.answer([{ kind: "raw", bytes }]);
    const { arrayBuffers } = process.memoryUsage();
    const result = await sender.send(requestTo(receiver.url));
    expect(result).toMatchObject({ status: 200, error: null });
    expect(Buffer.byteLength(result.responseBody ?? "")).toBeLessThanOrEqual(4_096);
    expect(process.memoryUsage().arrayBuffers - arrayBuffers).toBeLessThan(2_000_000);
  });

  it("that sends its body slowly succeeds at its headers and is disconnected", async () => {
    receiver.answer([{ kind: "drip-body", everyMs: 20 }]);
    const result = await sender.send(requestTo(receiver.url));
    expect(result).toMatchObject({ status: 200, error: null });
    await receiver.waitForConnections(0);
  });

  it("does not increase memory, however often", async () => {
    setFlagsFromString("--expose-gc");
    const collectGarbage = runInNewContext("gc") as () => void;
    const behaviours: readonly (readonly [Behaviour, 200 | "timeout" | "aborted"])[] = [
      [{ kind: "endless-body" }, 200],
      [{ kind: "informational-flood", everyMs: 0 }, "aborted"],
      [{ kind: "hang" }, "timeout"],
      [{ kind: "drip-headers", everyMs: 5 }, "timeout"],
      [{ kind: "reset" }, "aborted"],
      [{ kind: "raw", bytes: `HTTP/1.1 200 OK\r\nX-Long: ${"x".repeat(1_000_000)}` }, "aborted"],
      [{ kind: "raw", bytes: `HTTP/1.1 200 OK\r\n${"X-A: b\r\n".repeat(50_000)}` }, "aborted"],
      [{ kind: "raw", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf", close: true }, 200],
      [
        {
          kind: "raw",
          bytes: Buffer.concat([
            Buffer.from("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1000000\r\n\r\n"),
            gzipSync(Buffer.alloc(50_000_000)),
          ]),
          close: true,
        },
        200,
      ],
    ];
    receiver.answer(({ path }) => behaviours[Number(path.slice(1))]?.[0] ?? { kind: "hang" });
    const round = async () => {
      const sends = Array.from({ length: 50 }, async (_, count) => {
        const [, expected] = behaviours[count % behaviours.length] ?? [];
        // Only silence waits for the deadline.
        const deadlineMs = expected === "timeout" ? 400 : PATIENCE_MS;
        const url = `${receiver.url}/${count % behaviours.length}`;
        const { status, error } = await sender.send(requestTo(url, { deadlineMs }));
        expect(error ?? status).toBe(expected);
      });
      await Promise.all(sends);
      await receiver.waitForConnections(0);
      receiver.clear();
      collectGarbage();
      const { heapUsed, arrayBuffers } = process.memoryUsage();
      return heapUsed + arrayBuffers;
    };
    await round();
    const before = await round();
    for (let repetition = 0; repetition < 4; repetition += 1) {
      await round();
    }
    expect((await round()) - before).toBeLessThan(5_000_000);
    expect(sender.statistics()).toMatchObject({ idle: 0, inUse: 0, origins: 0 });
  });
});
