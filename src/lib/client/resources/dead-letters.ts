/** The dead-letter queue: deliveries that have failed 17 times, for 7 days. */
import type {
  DeadLetter,
  DeadLetterGroup,
  DeadLetterSummary,
  Delivery,
  ReplayCount,
  ReplayJob,
} from "../api-types.ts";
import { DeadLetterExport } from "./dead-letter-export.ts";
import type { DeliveryFilter } from "./deliveries.ts";
import { type IdempotentOptions, idempotencyKeyOf } from "../idempotency.ts";
import { List, type PageOptions } from "../paging.ts";
import type { ReplayPace, ReplaySelection } from "./replays.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/webhooks/dlq";

export class DeadLetters {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** In the order of their death, newest first. */
  list(filter: DeliveryFilter = {}): List<DeadLetter> {
    return new List(this.#transport, PATH, filter);
  }

  /** Exports all matches with their events in one streamed answer; two at once per tenant. */
  export(filter: Omit<DeliveryFilter, "limit" | "cursor" | "state"> = {}): DeadLetterExport {
    return new DeadLetterExport(this.#transport, filter);
  }

  /** Counts the queue by endpoint, reason and class of failure. */
  groups(filter: PageOptions & { readonly endpoint_id?: string } = {}): List<DeadLetterGroup> {
    return new List(this.#transport, `${PATH}/groups`, filter);
  }

  /** Reads how long the queue is, and how old; of all endpoints, or of one. */
  async summary(endpointId?: string, options: CallOptions = {}): Promise<DeadLetterSummary> {
    const query = endpointId === undefined ? {} : { endpoint_id: endpointId };
    return await this.#transport.call({ method: "GET", path: `${PATH}/summary`, query, ...options });
  }

  /** @param id a dead letter's id is its delivery's */
  async get(id: string, options: CallOptions = {}): Promise<DeadLetter> {
    return await this.#transport.call({ method: "GET", path: `${PATH}/${segment(id)}`, ...options });
  }

  /**
   * Starts a new cycle of 17 attempts with the same event id. Not retried if its answer is lost: check the
   * delivery's `cycle`.
   *
   * @throws SignetApiError INVALID_STATE if it is not (or no longer) a dead letter, or its endpoint is
   * disabled or deleted; DLQ_ENTRY_EXPIRED after 7 days
   */
  async replay(id: string, options: CallOptions = {}): Promise<Delivery> {
    return await this.#transport.call({ method: "POST", path: `${PATH}/${segment(id)}/replay`, ...options });
  }

  /** Counts the dead letters that {@link replayAll} would replay, and those of them that would fail now. */
  async countReplay(which: ReplaySelection, options: CallOptions = {}): Promise<ReplayCount> {
    const body = { ...which, dry_run: true };
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/replay`,
      body,
      repeatable: true,
      ...options,
    });
  }

  /** Replays many as a job: those now in the queue, at most 10,000 by id. */
  async replayAll(which: ReplaySelection & ReplayPace, options: IdempotentOptions = {}): Promise<ReplayJob> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/replay`,
      body: which,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }
}
