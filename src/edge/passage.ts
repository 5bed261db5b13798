/**
 * The passage of an upstream's answer to its client. Chunks go from one socket to the other as they come: a stream
 * between the two would cost as much as everything that the edge decides.
 */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import type { FastifyReply } from "fastify";
import type { Dispatcher } from "undici";

/** What the proxy library makes of an answer's head. */
export interface AnswerHead {
  readonly statusCode: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
}

/** The proxy library's end of a request: a failure, or the head of an answer. */
export type HeadCallback = (error: Error | null, head?: AnswerHead) => void;

/** Bodies up to this size leave in one write with their head; bytes. */
const ONE_WRITE_MAX = 16_384;
const INFORMATIONAL_END = 200;

/** One request's: undici calls it with what comes, and Fastify's reply is its way out. */
export class Passage implements Dispatcher.DispatchHandler {
  /** Headers of the answer, for the client; set before {@link begin}. */
  headers: OutgoingHttpHeaders = {};
  readonly #reply: FastifyReply;
  readonly #failed: (error: Error) => void;
  #callback: HeadCallback | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #statusCode = 0;
  #held: Buffer | undefined;
  #state: "waiting" | "begun" | "written" | "over" = "waiting";

  /**
   * @param failed answers a request whose answer broke off, or was given up, before any of it was written
   */
  constructor(reply: FastifyReply, failed: (error: Error) => void) {
    this.#reply = reply;
    this.#failed = failed;
  }

  /** What a request to the upstream is sent with. `callback` is called once, unless the client goes away first. */
  awaitHead(callback: HeadCallback): this {
    this.#callback = callback;
    // The end of the answer closes it too; by then there is nothing left to abort.
    this.#reply.raw.on("close", () => this.#abandon());
    return this;
  }

  /** Lets the answer through. */
  begin(statusCode: number): void {
    this.#statusCode = statusCode;
    this.#state = "begun";
    queueMicrotask(() => this.#waitForMore());
  }

  /** Gives the answer up. Also what the proxy library does with an answer that nobody waits for. */
  destroy(): void {
    this.#state = "over";
    this.#held = undefined;
    this.#controller?.abort(new Error("nobody waits for this answer"));
  }

  /** Ends it for a reason of ours: what has gone out already is broken off, everything else is answered with it. */
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
      // It was refused, and answered otherwise.
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
      // One string with the head, instead of two buffers.
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
      // The client must see that there is something missing.
      this.#reply.raw.destroy();
    }
  }

  #abandon(): void {
    if (this.#state !== "over") {
      this.destroy();
    }
  }

  /** Most answers are whole by now; of one that is not, the head and the first piece go together if they come together. */
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
    // The edge's own are few: a request id, and whether the connection stays open, which no answer may say.
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
