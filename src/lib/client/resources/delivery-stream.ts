/** A stream of changing deliveries, across reconnections. */
import type { Delivery } from "../api-types.ts";
import { SignetTransportError } from "../errors.ts";
import { asObject } from "../json.ts";
import { isRepeatable } from "../retry.ts";
import { readServerSentEvents, type ServerSentEvent } from "../server-sent-events.ts";
import type { CallOptions, Transport } from "../transport.ts";

const PATH = "/v1/webhooks/deliveries/stream";
const MEDIA_TYPE = "text/event-stream";
/** The service sends something every 5 seconds. */
const SILENCE_MS = 20_000;
/** Until the service sets another value. */
const RECONNECT_MS = 5_000;
const RECONNECT_MAX_MS = 30_000;
/** Twice as many as the service follows: it repeats only changes among its newest 200. */
const KNOWN_MAX = 400;

export interface DeliveryStreamOptions extends CallOptions {
  /** Resumes after an earlier stream's `lastEventId`. */
  readonly lastEventId?: string;
}

/** State of one connection. */
type Ending = "expired" | "broken";

function versionOf({ state, cycle, attempt_count: attempts, next_attempt_at: next }: Delivery): string {
  return `${state}/${cycle}/${attempts}/${next ?? ""}`;
}

/** Parses an event's data. @throws SignetTransportError INVALID_ANSWER */
function readData({ data }: ServerSentEvent): unknown {
  try {
    return JSON.parse(data) as unknown;
  } catch {
    throw new SignetTransportError("INVALID_ANSWER", "a server-sent event is not JSON");
  }
}

/**
 * `for await (const delivery of stream)` yields each changed delivery in its current state. Reconnects automatically, with
 * a new token and from its last position, after a token or a connection has ended. It ends with an error that a retry
 * cannot fix, with the signal's reason, or when the caller leaves the loop. It reads only on demand: to slow
 * callers, the service sends the newest state of each delivery, and at most 200.
 */
export class DeliveryStream implements AsyncIterable<Delivery> {
  readonly #transport: Transport;
  readonly #signal: AbortSignal | undefined;
  /** Versions already yielded, oldest first, to drop repetitions after a reconnection. */
  readonly #known = new Map<string, string>();
  #lastEventId: string | undefined;
  #reconnectMs = RECONNECT_MS;
  #failures = 0;
  #connected = false;

  constructor(transport: Transport, { signal, lastEventId }: DeliveryStreamOptions) {
    this.#transport = transport;
    this.#signal = signal;
    this.#lastEventId = lastEventId;
  }

  /** Position from which another stream can resume, even in another process; undefined before the first message. */
  get lastEventId(): string | undefined {
    return this.#lastEventId;
  }

  /**
   * @throws SignetApiError, SignetTransportError, CredentialStoreError, the signal's reason; once connected, only
   * errors that a retry cannot fix
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Delivery, void, void> {
    for (;;) {
      let ending: Ending = "broken";
      try {
        ending = yield* this.#connection();
      } catch (error) {
        this.#signal?.throwIfAborted();
        if (!this.#connected || !isRepeatable(error)) {
          throw error;
        }
        this.#warnOnce(error);
      }
      await this.#pause(ending);
    }
  }

  /** Warns when an outage begins. */
  #warnOnce(cause: unknown): void {
    if (this.#failures === 0) {
      const message = "the stream of deliveries was interrupted; it continues when the service answers again";
      this.#transport.runtime.warn({ code: "STREAM_INTERRUPTED", message, cause });
    }
  }

  async #pause(ending: Ending): Promise<void> {
    const { random, sleep } = this.#transport.runtime;
    if (ending === "expired") {
      return;
    }
    const longest = Math.min(RECONNECT_MAX_MS, this.#reconnectMs * 2 ** this.#failures);
    this.#failures += 1;
    // At least half the pause, plus jitter: clients cut off together must not reconnect together.
    await sleep((longest * (1 + random())) / 2, this.#signal);
  }

  async *#connection(): AsyncGenerator<Delivery, Ending, void> {
    const answer = await this.#transport.open(
      {
        method: "GET",
        path: PATH,
        headers: this.#lastEventId === undefined ? {} : { "last-event-id": this.#lastEventId },
        signal: this.#signal,
      },
      { mediaType: MEDIA_TYPE, idleMs: SILENCE_MS },
    );
    for await (const told of readServerSentEvents(answer.chunks)) {
      this.#reconnectMs = told.retryMs ?? this.#reconnectMs;
      if (told.event === "ready") {
        this.#ready(told);
      } else if (told.event === "delivery") {
        const delivery = readData(told) as Delivery;
        if (this.#isNews(delivery)) {
          yield delivery;
        }
      } else if (told.event === "end") {
        return asObject(readData(told))["reason"] === "expired" ? "expired" : "broken";
      }
      // Only now, after the caller has taken the previous one.
      this.#lastEventId = told.id ?? this.#lastEventId;
    }
    return "broken";
  }

  #ready(told: ServerSentEvent): void {
    this.#connected = true;
    this.#failures = 0;
    if (asObject(readData(told))["complete"] === false) {
      this.#transport.runtime.warn({
        code: "DELIVERIES_MISSED",
        message: "more deliveries have changed than the stream can catch up on: read the list",
      });
    }
  }

  #isNews(delivery: Delivery): boolean {
    const { id } = delivery;
    const version = versionOf(delivery);
    const before = this.#known.get(id);
    this.#known.delete(id);
    this.#known.set(id, version);
    const [oldest] = this.#known.keys();
    if (oldest !== undefined && this.#known.size > KNOWN_MAX) {
      this.#known.delete(oldest);
    }
    return before !== version;
  }
}
