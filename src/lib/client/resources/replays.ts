/** Replay jobs: many dead letters, or the events that an endpoint missed. */
import type { DeliveryFilter } from "./deliveries.ts";
import { List, type PageOptions } from "../paging.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/webhooks/replays";

/** Dead letters by id, or by filter. */
export type ReplaySelection =
  | { readonly ids: readonly string[] }
  | { readonly filter: Omit<DeliveryFilter, keyof PageOptions> };

export interface ReplayPace {
  /** Maximum per second, 1 to 5,000; 500 by default. */
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
  /** Failed: expired, or not found. */
  readonly failed: number;
  /** Skipped: no longer in the queue, or content erased. */
  readonly skipped: number;
  readonly rate_per_second: number;
  readonly created_at: string;
  readonly finished_at: string | null;
}

export interface ReplayItem {
  /** From 1, in replay order. */
  readonly position: number;
  readonly delivery_id: string | null;
  readonly event_id: string | null;
  readonly state: "WAITING" | "DONE" | "SKIPPED" | "FAILED" | "CANCELLED";
  /** Why it was skipped or failed. */
  readonly reason: string | null;
}

/** Events by time of acceptance. */
export interface MissedEvents extends ReplayPace {
  readonly since: string | Date;
  /** Now by default. */
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

  /** Lists the items with their results. */
  items(id: string, options: PageOptions & { readonly state?: ReplayItem["state"] } = {}): List<ReplayItem> {
    return new List(this.#transport, `${PATH}/${segment(id)}/items`, options);
  }

  async pause(id: string, options: CallOptions = {}): Promise<ReplayJob> {
    return await this.#change(id, "pause", options);
  }

  async resume(id: string, options: CallOptions = {}): Promise<ReplayJob> {
    return await this.#change(id, "resume", options);
  }

  /** Cancels the job. Replayed items stay replayed; the rest stays in the queue. */
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
