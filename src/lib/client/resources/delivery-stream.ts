/** Deliveries as they change: one stream for the caller, over as many connections as it takes. */
import type { Delivery } from "./deliveries.ts";
import { SignetTransportError } from "../errors.ts";
import { asObject } from "../json.ts";
import { isRepeatable } from "../retry.ts";
import { readServerSentEvents, type ServerSentEvent } from "../server-sent-events.ts";
import type { CallOptions, Transport } from "../transport.ts";

const PATH = "/v1/webhooks/deliveries/stream";
const MEDIA_TYPE = "text/event-stream";
/** The service is heard of every 5 seconds. */
const SILENCE_MS = 20_000;
/** Until the service says otherwise. */
const RECONNECT_MS = 5_000;
const RECONNECT_MAX_MS = 30_000;
/** Twice as many as the service follows: what is told again is told by the service among its newest 200. */
const KNOWN_MAX = 400;

export interface DeliveryStreamOptions extends CallOptions {
  /** Goes on from there: what an earlier stream's `lastEventId` was. */
  readonly lastEventId?: string;
}

/** What has happened to one connection. */
type Ending = "expired" | "broken";

function versionOf({ state, cycle, attempt_count: attempts, next_attempt_at: next }: Delivery): string {
  return `${state}/${cycle}/${attempts}/${next ?? ""}`;
}

/** Parses what the service has sent. @throws SignetTransportError INVALID_ANSWER */
function readData({ data }: ServerSentEvent): unknown {
  try {
    return JSON.parse(data) as unknown;
  } catch {
    throw new SignetTransportError("INVALID_ANSWER", "a server-sent event is not JSON");
  }
}

/**
 * `for await (const delivery of stream)`: each is a delivery as it stands at that moment. Connects again by itself, with
 * a fresh token and from where it was, when a token has ended or a connection has; it ends by an error that repetition
 * does not mend, with the signal's reason, or when the loop is left. Nothing is read that is not asked for: to who takes
 * long, the service tells the newest of each delivery and no more than 200.
 */
export class DeliveryStream implements AsyncIterable<Delivery> {
  readonly #transport: Transport;
  readonly #signal: AbortSignal | undefined;
  /** Versions of what was told, oldest first: what is told again after a reconnection is not told to the caller. */
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

  /** Where another stream can go on, also in another process; undefined before anything was heard. */
  get lastEventId(): string | undefined {
    return this.#lastEventId;
  }

  /**
   * @throws SignetApiError, SignetTransportError, CredentialStoreError, the signal's reason; once it was connected, only
   * what repetition does not mend
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

  /** Tells of an outage when it begins. */
  #warnOnce(cause: unknown): void {
    if (this.#failures === 0) {
      const message = "the stream of deliveries has broken off; it goes on when the service answers again";
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
    // Half of it for sure: clients that were cut off together do not come back together, nor at once.
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
      // Only now, as the caller has taken what came before it.
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
        message: "more deliveries have changed than the stream could make up for: read the list",
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
