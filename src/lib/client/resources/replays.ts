/** Replay jobs: many dead letters, or the events that an endpoint missed. */
import type { MissedEvents, ReplayItem, ReplayJob } from "../api-types.ts";
import type { DeliveryFilter } from "./deliveries.ts";
import { List, type PageOptions } from "../paging.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/webhooks/replays";

/** Dead letters by id, or by filter. */
export type ReplaySelection =
  | { readonly ids: readonly string[] }
  | { readonly filter: Omit<DeliveryFilter, keyof PageOptions> };

export type ReplayPace = Pick<MissedEvents, "rate_per_second">;

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
