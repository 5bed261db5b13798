import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { array, assert, asyncProperty, integer } from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { closeAtOnce, listenOn } from "#runtime/http-server.ts";
import { limitPipelining, UNANSWERED_MAX } from "#runtime/pipelined-requests.ts";
import { eventually } from "#test/support/eventually.ts";
import { cases } from "#test/support/properties.ts";

const servers: Server[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  await Promise.all(servers.splice(0).map(closeAtOnce));
});

type Answerer = (request: IncomingMessage, response: ServerResponse) => void;

async function serve(answer: Answerer): Promise<Server> {
  const server = createServer({ requireHostHeader: false }, answer);
  limitPipelining(server);
  await listenOn(server, { host: "127.0.0.1", port: 0 });
  servers.push(server);
  return server;
}

function open(server: Server): { readonly socket: Socket; readonly received: () => string } {
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  let text = "";
  socket.setEncoding("latin1").on("data", (data: string) => (text += data));
  socket.on("error", () => undefined);
  return { socket, received: () => text };
}

const get = (path: string | number): string => `GET /${path} HTTP/1.1\r\n\r\n`;
const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

test("a connection has at most 16 unanswered requests, and every one is answered in order", async () => {
  const begun: ServerResponse[] = [];
  const server = await serve((request, response) => {
    begun.push(response);
    response.setHeader("x-path", request.url ?? "");
  });
  const { socket, received } = open(server);
  socket.write(numbers(200).map(get).join(""));
  await eventually(() => begun.length === UNANSWERED_MAX, "the first requests");
  let most = 0;
  for (let answered = 0; answered < 200; answered += 1) {
    // The next one needs a slot, which the answer before frees.
    // oxlint-disable-next-line no-await-in-loop
    await eventually(() => begun.length > answered, `request ${answered}`);
    most = Math.max(most, begun.length - answered);
    begun[answered]?.end();
  }
  await eventually(() => received().match(/x-path/g)?.length === 200, "all answers");
  expect(most).toBe(UNANSWERED_MAX);
  expect([...received().matchAll(/x-path: \/(\d+)/g)].map(([, path]) => Number(path))).toEqual(numbers(200));
  socket.destroy();
});

test("requests and bodies mean the same however the bytes are split", async () => {
  const server = await serve((request, response) => {
    let body = "";
    request.on("data", (data: Buffer) => (body += data.toString("latin1")));
    request.on("end", () => response.end(`<${request.url}:${body}>`));
  });
  const post = (index: number): string => {
    const body = `${"a\r\n\r\n\n\r\n".repeat(index % 40)}end`;
    return `POST /${index} HTTP/1.1\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  };
  const wanted = numbers(40).map((index) =>
    index % 2 === 0 ? `</${index}:>` : `</${index}:${post(index).split(/(?<=Length: \d+)\r\n\r\n/)[1]}>`,
  );
  const stream = numbers(40)
    .map((index) => (index % 2 === 0 ? get(index) : post(index)))
    .join("");
  await assert(
    asyncProperty(array(integer({ min: 1, max: 40 }), { minLength: 1 }), async (sizes) => {
      const { socket, received } = open(server);
      socket.setNoDelay(true);
      let at = 0;
      for (let turn = 0; at < stream.length; turn += 1) {
        const size = turn < 300 ? (sizes[turn % sizes.length] as number) : stream.length;
        socket.write(stream.slice(at, at + size));
        at += size;
        // oxlint-disable-next-line no-await-in-loop
        await new Promise(setImmediate);
      }
      await eventually(() => received().includes(wanted.at(-1) as string), "the last answer");
      for (const answer of wanted) {
        expect(received()).toContain(answer);
      }
      socket.destroy();
    }),
    cases(5),
  );
}, 60_000);

test("the server stops reading from a peer that reads no answers", async () => {
  const begun: Socket[] = [];
  const server = await serve((request, response) => {
    begun.push(request.socket);
    response.end(Buffer.alloc(8_000_000));
  });
  const { socket } = open(server);
  socket.pause();
  socket.write(get("big").repeat(100_000));
  const [served] = await eventually(() => (begun.length > 0 ? begun : undefined), "the first answer");
  await eventually(() => (served as Socket).isPaused(), "the end of reading");
  // A second connection is served after anything the first one can still cause.
  const other = open(server);
  other.socket.write(get("other"));
  await eventually(() => other.received() !== "", "an answer to the other");
  expect(begun.filter((connection) => connection === served).length).toBeLessThanOrEqual(UNANSWERED_MAX);
  expect((served as Socket).bytesRead).toBeLessThanOrEqual(3 * 65_536);
  socket.destroy();
  other.socket.destroy();
});

test("HTTP/1.0 with a transfer coding is answered and closed, and nothing after it starts", async () => {
  const begun: (string | undefined)[] = [];
  const server = await serve((request, response) => {
    begun.push(request.url);
    request.resume().on("end", () => response.end("answered"));
  });
  const { socket, received } = open(server);
  const body = "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
  socket.write(`POST /first HTTP/1.0\r\n${body}${get("smuggled")}`);
  await once(socket, "close");
  expect(begun).toEqual(["/first"]);
  expect(received()).toMatch(/answered$/);
  expect(received()).not.toMatch(/keep-alive/i);
});

test("pipelined requests of all connections start one every 4 ms, and bodies do not wait for them", async () => {
  let bodies = 0;
  const server = await serve((request, response) => {
    request.on("data", (data: Buffer) => (bodies += data.length));
    request.on("end", () => response.end("answered"));
  });
  const timers = vi.spyOn(globalThis, "setTimeout");
  const began = performance.now();
  const clients = numbers(10).map(() => open(server));
  for (const { socket } of clients) {
    socket.write(numbers(20).map(get).join(""));
  }
  // 100,000 pieces, if each blank line ended a head.
  const body = "\n\r\n".repeat(100_000);
  const lone = open(server);
  lone.socket.write(`POST /lone HTTP/1.1\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  await eventually(() => lone.received().endsWith("answered"), "the answer to the body");
  expect(bodies).toBe(body.length);
  await eventually(
    () => clients.every(({ received }) => received().match(/answered/g)?.length === 20),
    "all answers",
  );
  // Timers may fire up to a millisecond early.
  expect(performance.now() - began).toBeGreaterThan(600);
  // A slow machine takes as long without the pace.
  expect(timers.mock.calls.filter(([, ms]) => ms === 4).length).toBeGreaterThan(150);
  for (const { socket } of [...clients, lone]) {
    socket.destroy();
  }
});
