/** Events: publishing and reading back. */
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import { List, type PageOptions } from "../paging.ts";
import type { Problem } from "../errors.ts";
import type { RawJson } from "../raw-json.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/events";

export interface NewEvent {
  /** For instance `inference.completed`. */
  readonly type: string;
  /** At most 256 KiB of JSON; {@link RawJson} is sent unchanged. */
  readonly data: object | RawJson;
  /** The publisher's own id: the same event sent again with it within 24 hours is published once. */
  readonly id?: string;
  readonly occurred_at?: string | Date;
  /** The tenant to publish for, if not the caller's; needs `events:publish_any`. */
  readonly tenant_id?: string;
}

/** A durable event with its deliveries. */
export interface AcceptedEvent {
  readonly id: string;
  readonly type: string;
  readonly created_at: string;
  /** Number of its endpoints. */
  readonly deliveries: number;
}

/** An accepted item of a batch. */
export interface AcceptedItem extends AcceptedEvent {
  readonly index: number;
  readonly error?: never;
  /** The answer to an earlier event with the same id. */
  readonly replayed?: true;
}

/** A rejected item of a batch; the others are not affected. */
export interface RefusedItem {
  readonly index: number;
  readonly error: Problem;
  readonly id?: never;
}

export type BatchItem = AcceptedItem | RefusedItem;

export interface StoredEvent {
  readonly id: string;
  readonly type: string;
  /** The publisher's own id. */
  readonly source_id: string | null;
  readonly occurred_at: string;
  readonly created_at: string;
  readonly deliveries: number;
  /** When `data` was erased. */
  readonly content_erased_at: string | null;
  readonly data: object | null;
}

export interface EventFilter extends PageOptions {
  /** The publisher's own id. */
  readonly id?: string;
  readonly event_type?: string;
  readonly from?: string | Date;
  readonly to?: string | Date;
}

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
