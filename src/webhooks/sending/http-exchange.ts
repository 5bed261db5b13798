/**
 * One request and its response on one connection, as a handler of undici's `dispatch`. Without the stream and
 * promises of `request`, and with a plain timer for the deadline, a send costs less than half.
 *
 * An exchange ends exactly once: with complete headers and a bounded part of the body, with an error, or at its
 * deadline. If the response is incomplete then, the connection is closed.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher } from "undici";
import type { Clock, Timer, Timers } from "#domain/clock.ts";
import { ConnectFailure } from "./http-tls.ts";

/** Why no response headers came. `unsent`: the connection was gone, and certainly nothing was written. */
export type ExchangeFailure = "timeout" | "aborted" | "unsent" | ConnectFailure["phase"];

/** Result of an exchange. */
export interface ExchangeEnd {
  /** Null without complete response headers. */
  readonly response: {
    readonly status: number;
    readonly retryAfter: string | string[] | undefined;
    readonly body: Buffer;
    readonly truncated: boolean;
  } | null;
  readonly failure: ExchangeFailure | null;
  /** The error behind `failure`, if there is one. */
  readonly cause: Error | null;
  /** Time of complete headers, or of the failure, in Unix milliseconds. */
  readonly at: number;
  /** Whether the connection can carry another request. */
  readonly reusable: boolean;
}

/** Limits of an exchange. */
export interface ExchangeLimits {
  /** From before DNS to complete headers, in milliseconds. */
  readonly deadlineMs: number;
  /** After complete headers, in milliseconds. */
  readonly bodyMs: number;
  /** Maximum bytes of body to read. */
  readonly bodyBytes: number;
  /** Maximum bytes of body to keep. */
  readonly keptBodyBytes: number;
}

type Controller = Dispatcher.DispatchController;

export class Exchange implements Dispatcher.DispatchHandler {
  private readonly limits: ExchangeLimits;
  private readonly clock: Clock;
  private readonly onEnd: (end: ExchangeEnd) => void;
  private readonly timers: Timers;
  private timer: Timer;
  /** Whether the sockets are checked once more before the phase ends. */
  private looking = false;
  private ended = false;
  private written = false;
  private status = 0;
  private retryAfter: string | string[] | undefined;
  private headersAt = 0;
  private persistent = true;
  private readonly kept: Buffer[] = [];
  private keptBytes = 0;
  private readBytes = 0;

  constructor(limits: ExchangeLimits, clock: Clock, timers: Timers, onEnd: (end: ExchangeEnd) => void) {
    this.limits = limits;
    this.clock = clock;
    this.timers = timers;
    this.onEnd = onEnd;
    this.timer = timers.after(limits.deadlineMs, onTimeout, this);
  }

  /** Called by undici immediately before it writes the request. */
  onRequestStart(): void {
    this.written = true;
  }

  onResponseStart(_controller: Controller, status: number, headers: IncomingHttpHeaders): void {
    if (this.ended) {
      return;
    }
    this.stopTimer();
    this.timer = this.timers.after(this.limits.bodyMs, onTimeout, this);
    this.status = status;
    this.headersAt = this.clock.now();
    this.retryAfter = headers["retry-after"];
    this.persistent = !/\bclose\b/i.test(headers.connection ?? "");
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    if (this.ended) {
      return;
    }
    this.readBytes += chunk.length;
    const room = this.limits.keptBodyBytes - this.keptBytes;
    if (room > 0) {
      const part = chunk.length > room ? chunk.subarray(0, room) : chunk;
      this.kept.push(part);
      this.keptBytes += part.length;
    }
    if (this.readBytes > this.limits.bodyBytes) {
      this.finish(false);
    }
  }

  onResponseEnd(): void {
    this.finish(this.persistent);
  }

  onResponseError(_controller: Controller, error: Error): void {
    if (this.status !== 0) {
      // The outcome was known at the headers. A truncated body does not change it.
      this.finish(false);
    } else if (error instanceof ConnectFailure) {
      this.fail(error.phase, error);
    } else {
      this.fail(this.written ? "aborted" : "unsent", error);
    }
  }

  /**
   * Ends the current phase at its deadline. After a stop or a busy period, timers run before the sockets are read. So
   * the exchange first checks the sockets once for data that arrived in time.
   */
  expireSoon(): void {
    this.looking = true;
    this.timers.soon(onLastLook, this);
  }

  expire(): void {
    if (!this.looking) {
      // It was answered in time.
    } else if (this.status === 0) {
      this.fail("timeout", null);
    } else {
      this.finish(false);
    }
  }

  private stopTimer(): void {
    this.timers.cancel(this.timer);
    this.looking = false;
  }

  private finish(reusable: boolean): void {
    if (this.ended) {
      return;
    }
    this.ended = true;
    this.stopTimer();
    const [first, ...rest] = this.kept;
    this.onEnd({
      response: {
        status: this.status,
        retryAfter: this.retryAfter,
        body: first !== undefined && rest.length === 0 ? first : Buffer.concat(this.kept),
        truncated: this.readBytes > this.keptBytes,
      },
      failure: null,
      cause: null,
      at: this.headersAt,
      reusable,
    });
  }

  private fail(failure: ExchangeFailure, cause: Error | null): void {
    if (this.ended) {
      return;
    }
    this.ended = true;
    this.stopTimer();
    this.onEnd({ response: null, failure, cause, at: this.clock.now(), reusable: false });
  }
}

function onTimeout(exchange: Exchange): void {
  exchange.expireSoon();
}

function onLastLook(exchange: Exchange): void {
  exchange.expire();
}
