/** Events: publishing and reading back. */
import type {
  AcceptedBatchItem,
  AcceptedEvent,
  EventQuery,
  NewEvent,
  RefusedBatchItem,
  StoredEvent,
} from "../api-types.ts";
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import { List, type PageOptions } from "../paging.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/events";

/** An accepted item of a batch. */
export interface AcceptedItem extends AcceptedBatchItem {
  readonly error?: never;
}

/** A rejected item of a batch; the others are not affected. */
export interface RefusedItem extends RefusedBatchItem {
  readonly id?: never;
}

export type BatchItem = AcceptedItem | RefusedItem;

export interface EventFilter extends EventQuery, PageOptions {}

export class Events {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Publishes one event. It is durable once this resolves. */
  async publish(event: NewEvent, options: IdempotentOptions = {}): Promise<AcceptedEvent> {
    return await this.#post<AcceptedEvent>(event, options);
  }

  /** Publishes up to 1,000 events, 4 MiB, in one request. Items are independent: check each for `error`. */
  async publishBatch(
    events: readonly NewEvent[],
    options: IdempotentOptions = {},
  ): Promise<readonly BatchItem[]> {
    return (await this.#post<{ readonly data: readonly BatchItem[] }>({ events }, options)).data;
  }

  list(filter: EventFilter = {}): List<StoredEvent> {
    return new List(this.#transport, PATH, filter);
  }

  async get(id: string, options: CallOptions = {}): Promise<StoredEvent> {
    return await this.#transport.call({ method: "GET", path: `${PATH}/${segment(id)}`, ...options });
  }

  /** Destroys the event's `data` and the receivers' answers permanently; waiting deliveries are cancelled. */
  async eraseContent(id: string, options: CallOptions = {}): Promise<void> {
    await this.#transport.call({ method: "DELETE", path: `${PATH}/${segment(id)}/content`, ...options });
  }

  async #post<T>(body: unknown, options: IdempotentOptions): Promise<T> {
    return await this.#transport.call<T>({
      method: "POST",
      path: PATH,
      body,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }
}
