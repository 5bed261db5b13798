/**
 * Forwards an upstream's response to the client. Chunks go directly from socket to socket, since a stream in between
 * would cost as much as all the edge's checks.
 */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import type { FastifyReply } from "fastify";
import type { Dispatcher } from "undici";

/** The head of a response, as the proxy library expects it. */
export interface AnswerHead {
  readonly statusCode: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
}

/** The proxy library's callback, with a failure or the head of a response. */
export type HeadCallback = (error: Error | null, head?: AnswerHead) => void;

/** Maximum size of a body that is sent in one write with its head, in bytes. */
const ONE_WRITE_MAX = 16_384;
const INFORMATIONAL_END = 200;

/** The passage of one request: receives the response from undici and writes it to Fastify's reply. */
export class Passage implements Dispatcher.DispatchHandler {
  /** Headers of the response to the client; set before {@link begin}. */
  headers: OutgoingHttpHeaders = {};
  readonly #reply: FastifyReply;
  readonly #failed: (error: Error) => void;
  #callback: HeadCallback | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #statusCode = 0;
  #held: Buffer | undefined;
  #state: "waiting" | "begun" | "written" | "over" = "waiting";

  /**
   * @param failed responds to a request whose upstream response was aborted before any of it was written
   */
  constructor(reply: FastifyReply, failed: (error: Error) => void) {
    this.#reply = reply;
    this.#failed = failed;
  }

  /** Waits for the head of the response. Calls `callback` once, unless the client disconnects first. */
  awaitHead(callback: HeadCallback): this {
    this.#callback = callback;
    // The end of the response closes it too, but then there is nothing left to abort.
    this.#reply.raw.on("close", () => this.#abandon());
    return this;
  }

  /** Starts forwarding the response. */
  begin(statusCode: number): void {
    this.#statusCode = statusCode;
    this.#state = "begun";
    queueMicrotask(() => this.#waitForMore());
  }

  /** Aborts the response. The proxy library also calls it for a response that it discards. */
  destroy(): void {
    this.#state = "over";
    this.#held = undefined;
    this.#controller?.abort(new Error("response discarded"));
  }

  /** Aborts the response. If none of it was sent, responds with the reason; otherwise closes the connection. */
  breakOff(reason: Error): void {
    const before = this.#state;
    if (before === "over") {
      return;
    }
    this.destroy();
    if (before === "written") {
      this.#reply.raw.destroy();
    } else {
      this.#failed(reason);
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#state === "over" || this.#reply.raw.destroyed) {
      this.destroy();
    }
  }

  onResponseStart(_: Dispatcher.DispatchController, statusCode: number, headers: IncomingHttpHeaders): void {
    if (statusCode < INFORMATIONAL_END || this.#state !== "waiting") {
      return;
    }
    this.#callback?.(null, { statusCode, headers, body: this });
    if (this.#state === "waiting") {
      // The response was rejected, and another one was sent.
      this.destroy();
    }
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#state === "begun" && this.#held === undefined) {
      this.#held = chunk;
      return;
    }
    this.#writeHeld();
    this.#write(chunk);
  }

  onResponseEnd(): void {
    const { raw } = this.#reply;
    const held = this.#held;
    if (this.#state === "begun" && (held === undefined || held.length <= ONE_WRITE_MAX)) {
      this.#writeHead();
      // Node sends a string together with the head, but a buffer separately.
      raw.end(held === undefined ? "" : held.toString("latin1"), "latin1");
    } else if (this.#state !== "over") {
      this.#writeHeld();
      raw.end();
    }
    this.#state = "over";
    this.#held = undefined;
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    const before = this.#state;
    this.#state = "over";
    this.#held = undefined;
    if (before === "waiting") {
      this.#callback?.(error);
    } else if (before === "begun") {
      this.#failed(error);
    } else if (before === "written") {
      // Close the connection so that the client notices the missing data.
      this.#reply.raw.destroy();
    }
  }

  #abandon(): void {
    if (this.#state !== "over") {
      this.destroy();
    }
  }

  /**
   * Waits once more, since most responses are complete by then; otherwise sends the head with the first chunk, if any.
   */
  #waitForMore(): void {
    if (this.#state === "begun") {
      setImmediate(() => this.#flush());
    }
  }

  #flush(): void {
    if (this.#state !== "begun") {
      return;
    }
    if (this.#held === undefined) {
      this.#writeHead();
      this.#reply.raw.flushHeaders();
    } else {
      this.#writeHeld();
    }
  }

  #writeHead(): void {
    this.#state = "written";
    const reply = this.#reply;
    reply.hijack();
    // The edge's own headers are few: a request id and `Connection`, which upstreams must not set.
    reply.raw.writeHead(this.#statusCode, Object.assign(reply.getHeaders(), this.headers));
  }

  #writeHeld(): void {
    if (this.#state === "begun") {
      this.#writeHead();
    }
    if (this.#held !== undefined) {
      const held = this.#held;
      this.#held = undefined;
      this.#write(held);
    }
  }

  #write(chunk: Buffer): void {
    if (this.#state === "written" && !this.#reply.raw.write(chunk)) {
      this.#controller?.pause();
      this.#reply.raw.once("drain", () => this.#controller?.resume());
    }
  }
}
