/** Deliveries and their attempts. */
import { DeliveryStream, type DeliveryStreamOptions } from "./delivery-stream.ts";
import type { AttemptError, Delivery, DeliveryState } from "./delivery-types.ts";
import { List, type PageOptions } from "../paging.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/webhooks/deliveries";

export interface Attempt {
  readonly id: string;
  readonly cycle: number;
  readonly attempt: number;
  readonly started_at: string;
  /** Null while the request is in flight. */
  readonly duration_ms: number | null;
  readonly status: number | null;
  readonly error: AttemptError | null;
  /** The first 4 KiB. */
  readonly response_body: string | null;
}

export interface DeliveryFilter extends PageOptions {
  readonly endpoint_id?: string;
  readonly event_id?: string;
  readonly event_type?: string;
  readonly state?: DeliveryState;
  readonly from?: string | Date;
  readonly to?: string | Date;
  /** Failure and status of the last attempt. */
  readonly last_error?: AttemptError;
  readonly last_status?: number;
  readonly reason?: "attempts_exhausted" | "endpoint_disabled";
  /** Endpoints with these metadata members, compared as text. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Counts of the deliveries accepted in one hour. */
export interface DeliveryHour {
  readonly hour: string;
  readonly total: number;
  readonly delivered: number;
  readonly dead_lettered: number;
  /** Milliseconds from acceptance to acknowledgement; null without deliveries. */
  readonly latency_p50_ms: number | null;
  readonly latency_p95_ms: number | null;
  /** False: the hour has more than 1,000 deliveries, and the counts cover the newest 1,000. */
  readonly complete: boolean;
}

export interface DeliveryStatsOptions extends CallOptions {
  /** Deliveries to this endpoint only. */
  readonly endpoint_id?: string;
}

export class Deliveries {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Newest first. */
  list(filter: DeliveryFilter = {}): List<Delivery> {
    return new List(this.#transport, PATH, filter);
  }

  async get(id: string, options: CallOptions = {}): Promise<Delivery> {
    return await this.#transport.call({ method: "GET", path: `${PATH}/${segment(id)}`, ...options });
  }

  /** Lists the attempts of a delivery, oldest first; read in pages of 100. */
  async attempts(id: string, options: CallOptions = {}): Promise<readonly Attempt[]> {
    const pages = new List<Attempt>(this.#transport, `${PATH}/${segment(id)}/attempts`, {
      limit: 100,
      ...options,
    });
    const all: Attempt[] = [];
    for await (const attempt of pages) {
      all.push(attempt);
    }
    return all;
  }

  /**
   * Streams deliveries as they change from now on, or since `lastEventId`: of the tenant's newest 200, checked once a second.
   * Each loop over it is a connection; ten at once per process of the service.
   */
  stream(options: DeliveryStreamOptions = {}): DeliveryStream {
    return new DeliveryStream(this.#transport, options);
  }

  /** Returns the last 24 hours of all endpoints or of one, oldest first; up to 30 seconds stale. */
  async stats(options: DeliveryStatsOptions = {}): Promise<readonly DeliveryHour[]> {
    const { endpoint_id, ...rest } = options;
    const { data } = await this.#transport.call<{ readonly data: readonly DeliveryHour[] }>({
      method: "GET",
      path: "/v1/webhooks/stats",
      query: { endpoint_id },
      ...rest,
    });
    return data;
  }

  /**
   * Makes the next attempt now; it counts as that attempt, and later ones keep their times.
   *
   * @throws SignetApiError INVALID_STATE if it has no further attempt
   */
  async retry(id: string, options: CallOptions = {}): Promise<Delivery> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/${segment(id)}/retry`,
      ...options,
    });
  }

  /** Cancels further attempts. @throws SignetApiError INVALID_STATE if it has ended */
  async cancel(id: string, options: CallOptions = {}): Promise<Delivery> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/${segment(id)}/cancel`,
      ...options,
    });
  }
}
