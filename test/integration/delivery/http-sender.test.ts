import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { buildEnvelope } from "#webhooks/sending/envelope.ts";
import type { HttpSender } from "#webhooks/sending/http-sender.ts";
import { Signer } from "#webhooks/sending/signer.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { createGate } from "#test/support/gate.ts";
import type { Receiver } from "#test/support/receiver-server.ts";
import { runProcess } from "#test/support/processes.ts";
import { startReceiver, verifyReceived } from "#test/support/receiver-server.ts";
import { createTestSender, requestTo } from "./http-fixtures.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");

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

describe("a delivery on the wire", () => {
  it("arrives with exactly the signed bytes and headers, and nothing else", async () => {
    const secret = generateSecret((size) => new Uint8Array(size).fill(9));
    const sentAt = Math.floor(Date.now() / 1000);
    const body = buildEnvelope({
      eventId: "evt_1",
      type: "inference.completed",
      timestamp: "2025-11-20T14:46:40.000Z",
      sentAt,
      attempt: 2,
      endpointId: "ep_1",
      deliveryId: "dlv_1",
      metadataJson: '{"k":1.0}',
      dataJson: '{"big":1152921504606846976,"text":"é✓\\u0000"}',
    });
    const headers = new Signer({ headerBrand: "Service", docsUrl: "https://signet.example/docs" }).headers({
      secret,
      body,
      eventId: "evt_1",
      eventType: "inference.completed",
      deliveryId: "dlv_1",
      attempt: 2,
      timestampSeconds: sentAt,
    });
    await sender.send(requestTo(`${receiver.url}/hook?tenant=1&x=%20`, { body, headers }));

    const [request] = await receiver.waitFor(1);
    expect(request).toMatchObject({ method: "POST", path: "/hook?tenant=1&x=%20", rawBody: body });
    const sent = Object.entries({
      host: `127.0.0.1:${receiver.port}`,
      connection: "keep-alive",
      ...headers,
      "content-length": String(body.length),
    });
    expect(request?.rawHeaders).toEqual(sent.flat());
    expect(request === undefined ? null : verifyReceived(request, [secret])).toMatchObject({ id: "evt_1" });
  });

  it("carries a body of 256 KiB completely", async () => {
    const body = Buffer.alloc(262_144, "é");
    expect(await sender.send(requestTo(receiver.url, { body }))).toMatchObject({ status: 200, error: null });
    expect(receiver.requests[0]?.rawBody.equals(body)).toBe(true);
  });
});

describe("the outcome", () => {
  it.each([200, 201, 202, 204, 299])("of %d is success", async (status) => {
    receiver.answer([{ kind: "answer", status }]);
    expect(await sender.send(requestTo(receiver.url))).toMatchObject({ status, error: null });
  });

  it.each([300, 304, 307, 400, 401, 404, 410, 429, 500, 503, 599])(
    "of %d is failure by status",
    async (status) => {
      receiver.answer([{ kind: "answer", status }]);
      expect(await sender.send(requestTo(receiver.url))).toMatchObject({ status, error: "status" });
    },
  );

  it("of a redirect is failure, and the redirect is not followed", async () => {
    const other = await startReceiver();
    receiver.answer([{ kind: "redirect", location: `${other.url}/stolen` }]);
    expect(await sender.send(requestTo(receiver.url))).toMatchObject({ status: 302, error: "status" });
    expect(receiver.requests).toHaveLength(1);
    expect(other.connections).toBe(0);
    await other.close();
  });

  it("of a ping is success with exactly 200", async () => {
    receiver.answer([{ kind: "answer", status: 204 }, { kind: "answer" }]);
    const ping = requestTo(receiver.url, { successStatus: (status) => status === 200 });
    expect(await sender.send(ping)).toMatchObject({ status: 204, error: "status" });
    expect(await sender.send(ping)).toMatchObject({ status: 200, error: null });
  });

  describe("comes from the final response, after", () => {
    const final = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    const unasked = "HTTP/1.1 100 Continue\r\n\r\n";
    const hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";

    it.each([
      ["103 Early Hints", hints],
      ["an unasked 100 Continue", unasked],
      ["several", unasked.repeat(3)],
      ["a mixture", `HTTP/1.1 102 Processing\r\n\r\n${unasked}${hints}${unasked}`],
    ])("%s, on a new and on a kept connection", async (_what, interim) => {
      receiver.answer([{ kind: "raw", bytes: interim + final }]);
      for (let count = 0; count < 3; count += 1) {
        expect(await sender.send(requestTo(receiver.url))).toMatchObject({
          status: 200,
          error: null,
          responseBody: "ok",
        });
      }
      expect(receiver.connections).toBe(1);
    });

    it("one that comes before the body of the request is read", async () => {
      receiver.answer([{ kind: "raw", bytes: unasked + final }]);
      const dripped = requestTo(receiver.url, { drip: { pieces: 2, everyMs: 1 } });
      expect(await sender.send(dripped)).toMatchObject({ status: 200, error: null });
    });

    it("one that precedes a failure, which keeps its status and its wait", async () => {
      const failure = "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n";
      receiver.answer([{ kind: "raw", bytes: unasked + failure }]);
      expect(await sender.send(requestTo(receiver.url))).toMatchObject({ status: 503, retryAfterMs: 7_000 });
    });
  });

  it("has its start time and the time until the headers", async () => {
    receiver.answer([{ kind: "answer", delayMs: 60 }]);
    const before = Date.now();
    const result = await sender.send(requestTo(receiver.url));
    expect(result.startedAt).toBeGreaterThanOrEqual(before);
    expect(result.durationMs).toBeGreaterThanOrEqual(55);
    expect(result.startedAt + result.durationMs).toBeLessThanOrEqual(Date.now());
  });

  it("has the requested wait of a failure with any status", async () => {
    const headers = { "Retry-After": "120" };
    receiver.answer([429, 503, 500, 404, 302].map((status) => ({ kind: "answer", status, headers })));
    const waits: (number | null)[] = [];
    for (let count = 0; count < 5; count += 1) {
      waits.push((await sender.send(requestTo(receiver.url))).retryAfterMs);
    }
    expect(waits).toEqual([120_000, 120_000, 120_000, 120_000, 120_000]);
  });

  it("is an exception only for an unsendable header, which is our bug", async () => {
    const headers = { "X-Bad": "a\r\nX-Injected: b" };
    await expect(sender.send(requestTo(receiver.url, { headers }))).rejects.toThrow("invalid X-Bad header");
    expect(receiver.requests).toHaveLength(0);
  });
});

describe("the response body", () => {
  const bodyOf = async (body: Uint8Array | string, headers = {}) => {
    receiver.answer([{ kind: "answer", body, headers }]);
    return (await sender.send(requestTo(receiver.url))).responseBody;
  };

  it("is stored up to 4 KiB, in whole characters", async () => {
    expect(await bodyOf("é".repeat(10_000))).toBe("é".repeat(2048));
    expect(await bodyOf(`x${"é".repeat(10_000)}`)).toBe(`x${"é".repeat(2047)}`);
  });

  it("is text that PostgreSQL can store, whatever the bytes", async () => {
    expect(await bodyOf(Uint8Array.of(0x61, 0, 0xff, 0xed, 0xa0, 0x80, 0x62))).toBe(
      "a\ufffd\ufffd\ufffd\ufffd\ufffdb",
    );
    const noise = await bodyOf(Buffer.alloc(4096, 0xff));
    expect(noise).toBe("\ufffd".repeat(1365));
  });

  it("is null when empty", async () => {
    expect(await bodyOf("")).toBeNull();
  });

  it("is not decompressed", async () => {
    const gzip = Buffer.from("H4sIAAAAAAAAA0vOzy0oSi0uTk0BAF1SfqcKAAAA", "base64");
    expect((await bodyOf(gzip, { "Content-Encoding": "gzip" }))?.startsWith("\u001f\ufffd")).toBe(true);
  });

  it("does not change the outcome if it breaks off", async () => {
    receiver.answer([
      { kind: "raw", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart", close: true },
    ]);
    expect(await sender.send(requestTo(receiver.url))).toMatchObject({
      status: 200,
      error: null,
      responseBody: "part",
    });
  });
});

describe("closing the sender", () => {
  it("completes running requests, rejects new ones and leaves no connection", async () => {
    const gate = createGate();
    receiver.answer([{ kind: "answer", after: gate.opened }]);
    const sending = sender.send(requestTo(receiver.url));
    await receiver.waitFor(1);
    const closing = sender.close();
    expect(await sender.send(requestTo(receiver.url))).toMatchObject({ status: null, error: "aborted" });
    gate.open();
    await closing;
    expect(await sending).toMatchObject({ status: 200, error: null });
    await receiver.waitForConnections(0);
    expect(receiver.requests).toHaveLength(1);
    expect(sender.statistics()).toMatchObject({ idle: 0, inUse: 0 });
  });
});

/** Prints the outcome of a request in a process without free file descriptors. */
const WITHOUT_DESCRIPTORS = `
  import { openSync } from "node:fs";
  const { createTestSender, requestTo } = await import(process.env.FIXTURES);
  const sender = createTestSender();
  const url = process.env.RECEIVER;
  const first = await sender.send(requestTo(url + "/first"));
  try { for (;;) openSync("/dev/null"); } catch {}
  const other = url.replace("127.0.0.1", "127.0.0.2");
  const send = async (to) => await sender.send(requestTo(to)).then(({ status }) => status, ({ cause }) => cause.code);
  const second = await send(other);
  const { idle } = sender.statistics();
  // Closing the idle connection has freed its descriptor, as soon as the socket is closed.
  let last = second;
  for (const until = Date.now() + 40_000; last === second && Date.now() < until;) {
    last = await send(url);
  }
  process.stdout.write(JSON.stringify([first.status, second, idle, last]), () => process.exit());
`;

it("a process without free file descriptors does not blame the receiver, and closes idle connections", async () => {
  const fixtures = new URL("http-fixtures.ts", import.meta.url).href;
  const node = ["node", "--input-type=module", "-e", WITHOUT_DESCRIPTORS];
  const printed = await runProcess({
    command: ["/bin/sh", "-c", 'ulimit -n 128 && exec "$@"', "sh", ...node],
    cwd: REPOSITORY,
    environment: { FIXTURES: fixtures, RECEIVER: receiver.url },
  });
  expect(JSON.parse(printed)).toEqual([200, "EMFILE", 0, 200]);
});
