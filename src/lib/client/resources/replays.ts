/** Replays as jobs: many dead letters, or the events that an endpoint has never got. */
import type { DeliveryFilter } from "./deliveries.ts";
import { List, type PageOptions } from "../paging.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/webhooks/replays";

/** Dead letters by id, or all that a filter finds. */
export type ReplaySelection =
  | { readonly ids: readonly string[] }
  | { readonly filter: Omit<DeliveryFilter, keyof PageOptions> };

export interface ReplayPace {
  /** At most so many a second, 1 to 5,000; 500 unless said otherwise. */
  readonly rate_per_second?: number;
}

export interface ReplayJob {
  readonly id: string;
  readonly kind: "dead_letters" | "missing";
  readonly endpoint_id: string | null;
  readonly state: "RUNNING" | "PAUSED" | "COMPLETED" | "CANCELLED";
  readonly total: number;
  /** Replayed. */
  readonly done: number;
  /** Could not be: over, or not there. */
  readonly failed: number;
  /** Need not be: not in the queue any more, or nothing left to send. */
  readonly skipped: number;
  readonly rate_per_second: number;
  readonly created_at: string;
  readonly finished_at: string | null;
}

export interface ReplayItem {
  /** From 1, in the order in which they are replayed. */
  readonly position: number;
  readonly delivery_id: string | null;
  readonly event_id: string | null;
  readonly state: "WAITING" | "DONE" | "SKIPPED" | "FAILED" | "CANCELLED";
  /** Why it was skipped or has failed. */
  readonly reason: string | null;
}

/** Which events, by the time of their acceptance. */
export interface MissedEvents extends ReplayPace {
  readonly since: string | Date;
  /** Now, unless said otherwise. */
  readonly until?: string | Date;
}

export class Replays {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Newest first. */
  list(options: PageOptions = {}): List<ReplayJob> {
    return new List(this.#transport, PATH, options);
  }

  async get(id: string, options: CallOptions = {}): Promise<ReplayJob> {
    return await this.#transport.call({ method: "GET", path: `${PATH}/${segment(id)}`, ...options });
  }

  /** What has become of each. */
  items(id: string, options: PageOptions & { readonly state?: ReplayItem["state"] } = {}): List<ReplayItem> {
    return new List(this.#transport, `${PATH}/${segment(id)}/items`, options);
  }

  async pause(id: string, options: CallOptions = {}): Promise<ReplayJob> {
    return await this.#change(id, "pause", options);
  }

  async resume(id: string, options: CallOptions = {}): Promise<ReplayJob> {
    return await this.#change(id, "resume", options);
  }

  /** What was replayed stays so; the rest stays in the queue. */
  async cancel(id: string, options: CallOptions = {}): Promise<ReplayJob> {
    return await this.#change(id, "cancel", options);
  }

  async #change(id: string, change: string, options: CallOptions): Promise<ReplayJob> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/${segment(id)}/${change}`,
      repeatable: true,
      ...options,
    });
  }
}
