/** The dead-letter queue: deliveries that have failed 17 times, for 7 days. */
import type { Delivery, DeliveryFilter } from "./deliveries.ts";
import { List } from "./paging.ts";
import { type CallOptions, segment, type Transport } from "./transport.ts";

const PATH = "/v1/webhooks/dlq";

export interface DeadLetter extends Delivery {
  readonly reason: "attempts_exhausted" | "endpoint_disabled" | null;
  /** What could not be delivered. */
  readonly event: object | null;
}

export class DeadLetters {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  list(filter: DeliveryFilter = {}): List<DeadLetter> {
    return new List(this.#transport, PATH, filter);
  }

  /** @param id a dead letter's id is its delivery's */
  async get(id: string, options: CallOptions = {}): Promise<DeadLetter> {
    return await this.#transport.call({ method: "GET", path: `${PATH}/${segment(id)}`, ...options });
  }

  /**
   * Gives it a fresh cycle of 17 attempts, with the same event id. Not repeated when its answer is lost: look at the
   * delivery's `cycle` then.
   *
   * @throws SignetApiError INVALID_STATE when it is no dead letter (any more), DLQ_ENTRY_EXPIRED after 7 days
   */
  async replay(id: string, options: CallOptions = {}): Promise<Delivery> {
    return await this.#transport.call({ method: "POST", path: `${PATH}/${segment(id)}/replay`, ...options });
  }
}
