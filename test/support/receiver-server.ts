/**
 * A webhook receiver for tests: real HTTP on a free port of loopback, with scripted behaviour. It records its requests
 * and lets tests wait for them.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { once } from "node:events";
import { type AddressInfo, connect, type Socket } from "node:net";
import type { VerifiedPayload } from "#lib/receiver/verify.ts";
import { verify } from "#lib/receiver/verify.ts";
import { PATIENCE_MS } from "./eventually.ts";

/** The receiver's reaction to a request. */
export type Behaviour =
  | {
      readonly kind: "answer";
      readonly status?: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string | Uint8Array;
      readonly delayMs?: number;
      /** Responds after this has resolved. */
      readonly after?: Promise<unknown>;
    }
  /** Responds 302. */
  | { readonly kind: "redirect"; readonly location: string }
  /** Never responds. */
  | { readonly kind: "hang" }
  /** Resets the connection. */
  | { readonly kind: "reset" }
  /** Closes the connection without a response. */
  | { readonly kind: "close" }
  /** Sends one byte of a header at a time, without end. */
  | { readonly kind: "drip-headers"; readonly everyMs: number }
  /** Sends `102 Processing` forever; as fast as the connection allows if `everyMs` is 0. */
  | { readonly kind: "informational-flood"; readonly everyMs: number }
  /** Sends 200 and an endless body, as fast as the connection allows. */
  | { readonly kind: "endless-body" }
  /** Sends 200 and one byte of the body at a time, without end. */
  | { readonly kind: "drip-body"; readonly everyMs: number }
  /** Sends these bytes, then closes the connection if `close` is set. */
  | { readonly kind: "raw"; readonly bytes: string | Uint8Array; readonly close?: boolean };

/** A request as it arrived. */
export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Header names and values in turn, in the order and spelling of the wire. */
  readonly rawHeaders: readonly string[];
  readonly rawBody: Buffer;
  /** Unix milliseconds when the body was complete. */
  readonly receivedAt: number;
  /** Number of the connection, from 1. */
  readonly connection: number;
}

/** The behaviour for the next requests: a list, whose last entry repeats, or a function of the request. */
type Script = readonly Behaviour[] | ((request: ReceivedRequest) => Behaviour);

/** Settings of a receiver. */
export interface ReceiverOptions {
  readonly script?: Script;
  /** Loopback address (default: 127.0.0.1). */
  readonly host?: string;
  readonly port?: number;
  /** PEM key and certificate; enables https. */
  readonly tls?: { readonly key: string; readonly cert: string };
}

/** A running receiver. */
export interface Receiver {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly requests: readonly ReceivedRequest[];
  /** Number of connections accepted so far. */
  readonly connections: number;
  /** Replaces the script; a list starts from its first entry. */
  answer(script: Script): void;
  /** Resolves with all requests once there are at least `count`. */
  waitFor(count: number, timeoutMs?: number): Promise<readonly ReceivedRequest[]>;
  /** Resolves once at most `atMost` connections are open. */
  waitForConnections(atMost: number, timeoutMs?: number): Promise<void>;
  /** Resolves when it has read all that ended senders gave to the kernel, and no connection is open. */
  untilRead(): Promise<void>;
  /** Clears the recorded requests. */
  clear(): void;
  /** Closes idle connections, as servers do after their keep-alive timeout. */
  closeIdleConnections(): void;
  close(): Promise<void>;
}

const CHUNK = Buffer.alloc(16_384, "x");

/** Returns the payload of a received request if its signature is valid. @throws the error of `verify` */
export function verifyReceived(
  request: ReceivedRequest,
  secrets: readonly string[],
  now = request.receivedAt,
): VerifiedPayload {
  return verify({ rawBody: request.rawBody, headers: request.headers, secrets, now });
}

/** Writes as fast as the peer reads, until the connection ends. */
function pour(socket: Socket, chunk: string | Buffer): void {
  while (!socket.destroyed && socket.write(chunk));
  if (!socket.destroyed) {
    socket.once("drain", () => {
      pour(socket, chunk);
    });
  }
}

function drip(socket: Socket, text: string, everyMs: number): void {
  const timer = setInterval(() => {
    socket.write(text);
  }, everyMs);
  socket.once("close", () => {
    clearInterval(timer);
  });
}

function answer(response: ServerResponse, behaviour: Extract<Behaviour, { kind: "answer" }>): void {
  const send = () => {
    response.writeHead(behaviour.status ?? 200, behaviour.headers);
    response.end(behaviour.body);
  };
  if (behaviour.after !== undefined) {
    void behaviour.after.then(send);
  } else if (behaviour.delayMs === undefined) {
    send();
  } else {
    setTimeout(send, behaviour.delayMs);
  }
}

function behave(behaviour: Behaviour, socket: Socket, response: ServerResponse): void {
  switch (behaviour.kind) {
    case "answer":
      answer(response, behaviour);
      break;
    case "redirect":
      answer(response, { kind: "answer", status: 302, headers: { Location: behaviour.location } });
      break;
    case "hang":
      break;
    case "reset":
      socket.resetAndDestroy();
      break;
    case "close":
      socket.destroy();
      break;
    case "drip-headers":
      socket.write("HTTP/1.1 200 OK\r\nX-Slow: ");
      drip(socket, "x", behaviour.everyMs);
      break;
    case "informational-flood":
      if (behaviour.everyMs === 0) {
        pour(socket, "HTTP/1.1 102 Processing\r\n\r\n".repeat(500));
      } else {
        drip(socket, "HTTP/1.1 102 Processing\r\n\r\n", behaviour.everyMs);
      }
      break;
    case "endless-body":
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      pour(socket, CHUNK);
      break;
    case "drip-body":
      socket.write("HTTP/1.1 200 OK\r\n\r\nx");
      drip(socket, "x", behaviour.everyMs);
      break;
    case "raw":
      socket.write(behaviour.bytes);
      if (behaviour.close === true) {
        socket.end();
      }
      break;
  }
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) {
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}

/** Conditions that tests wait for, checked at every change. */
class Waiters {
  private readonly waiting = new Set<() => void>();

  wait(condition: () => boolean, what: () => string, timeoutMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.waiting.delete(check);
        reject(new Error(`the receiver timed out after ${timeoutMs} ms waiting for ${what()}`));
      }, timeoutMs);
      const check = () => {
        if (condition()) {
          clearTimeout(timer);
          this.waiting.delete(check);
          resolve();
        }
      };
      this.waiting.add(check);
      check();
    });
  }

  notify(): void {
    for (const check of this.waiting) {
      check();
    }
  }
}

/** Starts a receiver. By default it responds 200 with an empty body. */
export async function startReceiver(options: ReceiverOptions = {}): Promise<Receiver> {
  const requests: ReceivedRequest[] = [];
  const sockets = new Map<Socket, number>();
  const waiters = new Waiters();
  let script: Script = options.script ?? [{ kind: "answer" }];
  let step = 0;
  let connections = 0;

  async function waitForConnections(atMost: number, timeoutMs = PATIENCE_MS): Promise<void> {
    const what = () => `at most ${atMost} connections; it has ${sockets.size}`;
    await waiters.wait(() => sockets.size <= atMost, what, timeoutMs);
  }
  function next(request: ReceivedRequest): Behaviour {
    if (typeof script === "function") {
      return script(request);
    }
    const behaviour = script[Math.min(step, script.length - 1)];
    step += 1;
    return behaviour ?? { kind: "answer" };
  }
  async function handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const rawBody = await readBody(incoming);
    const request: ReceivedRequest = {
      method: incoming.method ?? "",
      path: incoming.url ?? "",
      headers: incoming.headers,
      rawHeaders: incoming.rawHeaders,
      rawBody,
      receivedAt: Date.now(),
      connection: sockets.get(incoming.socket) ?? 0,
    };
    requests.push(request);
    behave(next(request), incoming.socket, response);
    waiters.notify();
  }
  const onRequest = (incoming: IncomingMessage, response: ServerResponse): void => {
    // A sender may hang up in the middle of a request.
    handle(incoming, response).catch(() => incoming.socket.destroy());
  };

  const server =
    options.tls === undefined ? createServer(onRequest) : createTlsServer(options.tls, onRequest);
  server.keepAliveTimeout = 60_000;
  server.on(options.tls === undefined ? "connection" : "secureConnection", (socket: Socket) => {
    connections += 1;
    sockets.set(socket, connections);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => {
      sockets.delete(socket);
      waiters.notify();
    });
  });
  const host = options.host ?? "127.0.0.1";
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port ?? 0, host, resolve);
  });
  const { port } = server.address() as AddressInfo;

  return {
    url: `${options.tls === undefined ? "http" : "https"}://${host}:${port}`,
    host,
    port,
    requests,
    get connections() {
      return connections;
    },
    answer(newScript) {
      script = newScript;
      step = 0;
    },
    async waitFor(count, timeoutMs = PATIENCE_MS) {
      const what = () => `${count} requests; it got ${requests.length}`;
      await waiters.wait(() => requests.length >= count, what, timeoutMs);
      return requests;
    },
    waitForConnections,
    async untilRead() {
      // Connections are accepted in order, so this one comes after the others.
      await once(connect(port, host).resume().end(), "close");
      await waitForConnections(0);
    },
    clear() {
      requests.length = 0;
    },
    closeIdleConnections() {
      server.closeIdleConnections();
    },
    async close() {
      for (const socket of sockets.keys()) {
        socket.destroy();
      }
      await new Promise<void>((resolve) => {
        server.close(() => {
          resolve();
        });
      });
    },
  };
}
