/** Deliveries and their attempts. */
import type { Attempt, Delivery, DeliveryHour, DeliveryQuery, Usage } from "../api-types.ts";
import { DeliveryStream, type DeliveryStreamOptions } from "./delivery-stream.ts";
import { List, type PageOptions } from "../paging.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/webhooks/deliveries";

export interface DeliveryFilter extends DeliveryQuery, PageOptions {}

export interface DeliveryStatsOptions extends CallOptions {
  /** Deliveries to this endpoint only. */
  readonly endpoint_id?: string;
}

export interface UsageOptions extends CallOptions {
  readonly from?: string;
  readonly to?: string;
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
   * Returns the tenant's usage of each UTC day that has any, oldest first; of the last 30 days by default.
   *
   * @param from first day, `YYYY-MM-DD`
   * @param to last day
   */
  async usage({ from, to, ...rest }: UsageOptions = {}): Promise<readonly Usage[]> {
    const { data } = await this.#transport.call<{ readonly data: readonly Usage[] }>({
      method: "GET",
      path: "/v1/usage",
      query: { from, to },
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

  /**
   * Starts a new cycle of 17 attempts with the same `webhook-id`. Not retried if its answer is lost: check the
   * delivery's `cycle`.
   *
   * @throws SignetApiError INVALID_STATE if it is not delivered, cancelled or expired, its endpoint is disabled or deleted or its
   * event's content erased
   */
  async resend(id: string, options: CallOptions = {}): Promise<Delivery> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/${segment(id)}/resend`,
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
