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
  /** At most 256 KiB of JSON; {@link RawJson} goes out as it was written. */
  readonly data: object | RawJson;
  /** The publisher's own id: the same event sent again with it within 24 hours is published once. */
  readonly id?: string;
  readonly occurred_at?: string | Date;
  /** For whom, where that is not oneself; needs `events:publish_any`. */
  readonly tenant_id?: string;
}

/** An event that is on disk, together with its deliveries. */
export interface AcceptedEvent {
  readonly id: string;
  readonly type: string;
  readonly created_at: string;
  /** How many endpoints it goes to. */
  readonly deliveries: number;
}

/** An item of a batch that was accepted. */
export interface AcceptedItem extends AcceptedEvent {
  readonly index: number;
  readonly error?: never;
  /** The answer to an earlier event with the same id. */
  readonly replayed?: true;
}

/** An item of a batch that was not; the others were, all the same. */
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
  /** Since when there is no `data` any more. */
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

  /** Publishes one event. Once this resolves it is not lost any more. */
  async publish(event: NewEvent, options: IdempotentOptions = {}): Promise<AcceptedEvent> {
    return await this.#post<AcceptedEvent>(event, options);
  }

  /** Publishes up to 1,000 events, 4 MiB, in one request. Items stand for themselves: look for `error` in each. */
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

  /** Destroys the event's `data` and what receivers answered to it, for good; deliveries that wait are cancelled. */
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
