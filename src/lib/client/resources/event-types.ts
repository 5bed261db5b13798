/** The catalogue of event types. */
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import { List, type PageOptions } from "../paging.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/webhooks/event-types";

export interface NewEventType {
  /** For instance `inference.completed`. */
  readonly name: string;
  readonly description?: string | null;
  /** JSON Schema (draft 2020-12) that the `data` of its events must fit. */
  readonly schema?: object;
  /** Examples of `data`; each fits the schema. */
  readonly examples?: readonly object[];
  readonly deprecated?: boolean;
  /** The replacement type. */
  readonly replaced_by?: string | null;
}

/** Absent members stay. */
export interface EventTypeChange extends Omit<NewEventType, "name"> {
  /** The version against which events are checked from now on; null: none. Not together with `schema`. */
  readonly schema_version?: number | null;
  readonly archived?: boolean;
}

export interface EventType {
  readonly name: string;
  readonly description: string | null;
  readonly schema_version: number | null;
  readonly schema: object | null;
  readonly examples: readonly object[];
  readonly deprecated_at: string | null;
  readonly replaced_by: string | null;
  readonly archived_at: string | null;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface EventTypeSchema {
  readonly version: number;
  readonly created_at: string;
  readonly schema: object;
}

export interface EventTypeListOptions extends PageOptions {
  /** Also archived types. */
  readonly archived?: "true" | "false";
}

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
