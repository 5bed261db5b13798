/** The publisher's instructions, and the bytes of its requests. */
import { dataHead, dataTail, indexText } from "./event-id.ts";

/** Status of an accepted event. */
export const ACCEPTED = 202;

/** As fast as responses arrive, over `connections`. If `batch` > 1, each request has that many events. */
export interface ClosedLoop {
  readonly kind: "closed";
  readonly connections: number;
  readonly batch: number;
}

/** A steady rate, independent of the responses. Latency counts from the scheduled instant. */
export interface OpenLoop {
  readonly kind: "open";
  readonly perSecond: number;
}

/** Event `index` goes to tenant `index % tenants`, with type `floor(index / tenants) % types`. */
export interface PublishPlan {
  readonly host: string;
  /** Ports of the apis; connections are spread over them. */
  readonly ports: readonly number[];
  readonly run: string;
  /** First index. Plans of one run have disjoint index ranges. */
  readonly from: number;
  readonly count: number;
  /** One access token per tenant. */
  readonly tokens: readonly string[];
  /** Event types of equal length. */
  readonly types: readonly string[];
  /** Size of each event's `data`, in bytes. */
  readonly payloadBytes: number;
  readonly pace: ClosedLoop | OpenLoop;
  /**
   * Retries each event with its own Idempotency-Key until it is accepted or this many milliseconds have passed since the
   * first attempt. Single events only. Undefined: sends each event once, without a key.
   */
  readonly persistMs?: number;
  /** File that records each 202. */
  readonly ledger?: string;
}

/** Results per event of a plan, in order. Times are milliseconds of the common clock. */
export interface Published {
  readonly started: Float64Array;
  readonly acked: Float64Array;
  /** HTTP status; 0 if the connection broke. */
  readonly status: Uint16Array;
  /** Number of retried responses, by status. */
  readonly repeated: Readonly<Record<number, number>>;
}

/** Builds requests from prepared parts. */
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
        `POST /v1/events HTTP/1.1\r\nHost: ${plan.host}:${plan.ports[0]}\r\nAuthorization: Bearer ${token}\r\n` +
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

  /** Returns one request with many events of one tenant. */
  batch(indexes: readonly number[]): string {
    const body = `{"events":[${indexes.map((index) => this.#event(index)).join(",")}]}`;
    return this.#request(indexes[0] ?? 0, "", body);
  }

  #request(index: number, headers: string, body: string): string {
    const head = this.#heads[index % this.#heads.length] ?? "";
    return `${head}${headers}Content-Length: ${body.length}\r\n\r\n${body}`;
  }
}
