/** The catalogue of event types. */
import type {
  EventType,
  EventTypeChange,
  EventTypeQuery,
  EventTypeSchema,
  NewEventType,
} from "../api-types.ts";
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import { List, type PageOptions } from "../paging.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/webhooks/event-types";

export interface EventTypeListOptions extends EventTypeQuery, PageOptions {}

export class EventTypes {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async create(type: NewEventType, options: IdempotentOptions = {}): Promise<EventType> {
    return await this.#transport.call({
      method: "POST",
      path: PATH,
      body: type,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }

  /** Lists types by name, without archived ones by default. */
  list(options: EventTypeListOptions = {}): List<EventType> {
    return new List(this.#transport, PATH, options);
  }

  async get(name: string, options: CallOptions = {}): Promise<EventType> {
    return await this.#transport.call({ method: "GET", path: `${PATH}/${segment(name)}`, ...options });
  }

  /** Changes a type. A schema that differs from the current one becomes its next version. */
  async update(name: string, change: EventTypeChange, options: CallOptions = {}): Promise<EventType> {
    return await this.#transport.call({
      method: "PATCH",
      path: `${PATH}/${segment(name)}`,
      body: change,
      ...options,
    });
  }

  /** Deletes a type; its events are then accepted unchecked. */
  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.#transport.call({ method: "DELETE", path: `${PATH}/${segment(name)}`, ...options });
  }

  /** Lists the versions of its schema, newest first. */
  versions(name: string, options: PageOptions = {}): List<EventTypeSchema> {
    return new List(this.#transport, `${PATH}/${segment(name)}/versions`, options);
  }
}
