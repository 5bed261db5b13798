/** What the publisher is told to do, and the bytes of its requests. */
import { dataHead, dataTail, indexText } from "./event-id.ts";

/** The answer to an event that was taken. */
export const ACCEPTED = 202;

/** As fast as answers come, over so many connections; with `batch` > 1 that many events in one request. */
export interface ClosedLoop {
  readonly kind: "closed";
  readonly connections: number;
  readonly batch: number;
}

/** At a steady rate, whatever the answers do; latency counts from the scheduled instant. */
export interface OpenLoop {
  readonly kind: "open";
  readonly perSecond: number;
}

/** Event `index` goes to tenant `index % tenants`, with type `floor(index / tenants) % types`. */
export interface PublishPlan {
  readonly host: string;
  readonly port: number;
  readonly run: string;
  /** The first index; several plans of one run have ranges of their own. */
  readonly from: number;
  readonly count: number;
  /** One access token per tenant. */
  readonly tokens: readonly string[];
  /** Event types, all of one length. */
  readonly types: readonly string[];
  /** Bytes of each event's `data`. */
  readonly payloadBytes: number;
  readonly pace: ClosedLoop | OpenLoop;
  /**
   * Each event is sent again, with its own Idempotency-Key, until it is accepted or so many milliseconds have passed
   * since it was sent first; single events only. Undefined: each is sent once, without a key.
   */
  readonly persistMs?: number;
  /** File in which each 202 is written down. */
  readonly ledger?: string;
}

/** Per event of a plan, in order; milliseconds of the common clock. */
export interface Published {
  readonly started: Float64Array;
  readonly acked: Float64Array;
  /** HTTP status; 0 where the connection broke. */
  readonly status: Uint16Array;
  /** How often which status was the answer to what was sent again. */
  readonly repeated: Readonly<Record<number, number>>;
}

/** Builds requests out of parts that were made once. */
export class RequestWriter {
  readonly #plan: PublishPlan;
  readonly #heads: readonly string[];
  readonly #dataHead: string;
  readonly #dataTail: string;

  constructor(plan: PublishPlan) {
    this.#plan = plan;
    this.#dataHead = dataHead(plan.run);
    this.#dataTail = dataTail(plan.run, plan.payloadBytes);
    this.#heads = plan.tokens.map(
      (token) =>
        `POST /v1/events HTTP/1.1\r\nHost: ${plan.host}:${plan.port}\r\nAuthorization: Bearer ${token}\r\n` +
        "Content-Type: application/json\r\n",
    );
  }

  #event(index: number): string {
    const { tokens, types } = this.#plan;
    const type = types[Math.floor(index / tokens.length) % types.length];
    return `{"type":"${type}","data":${this.#dataHead}${indexText(index)}${this.#dataTail}}`;
  }

  single(index: number): string {
    const { run, persistMs } = this.#plan;
    const key = persistMs === undefined ? "" : `Idempotency-Key: ${run}-${index}\r\n`;
    return this.#request(index, key, this.#event(index));
  }

  /** One request with many events, all of one tenant. */
  batch(indexes: readonly number[]): string {
    const body = `{"events":[${indexes.map((index) => this.#event(index)).join(",")}]}`;
    return this.#request(indexes[0] ?? 0, "", body);
  }

  #request(index: number, headers: string, body: string): string {
    const head = this.#heads[index % this.#heads.length] ?? "";
    return `${head}${headers}Content-Length: ${body.length}\r\n\r\n${body}`;
  }
}
