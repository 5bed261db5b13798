/** Replay jobs: many deliveries or dead letters, or the events that an endpoint missed. */
import type {
  MissedEvents,
  NewReplay,
  ReplayCount,
  ReplayItem,
  ReplayJob,
  ReplayOutcomes,
} from "../api-types.ts";
import type { DeliveryFilter } from "./deliveries.ts";
import { type IdempotentOptions, idempotencyKeyOf } from "../idempotency.ts";
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

  /** Counts the deliveries that {@link create} would replay, and those of them that would fail now. */
  async count(which: Pick<NewReplay, "states" | "filter">, options: CallOptions = {}): Promise<ReplayCount> {
    return await this.#transport.call({
      method: "POST",
      path: PATH,
      body: { ...which, dry_run: true },
      repeatable: true,
      ...options,
    });
  }

  /**
   * Replays many deliveries as a job: retries are attempted now, others get a new cycle. By default, it selects dead
   * letters and retries. A job that includes `CANCELLED` has at most 100,000.
   */
  async create(which: NewReplay, options: IdempotentOptions = {}): Promise<ReplayJob> {
    return await this.#transport.call({
      method: "POST",
      path: PATH,
      body: which,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }

  /** Newest first. */
  list(options: PageOptions = {}): List<ReplayJob> {
    return new List(this.#transport, PATH, options);
  }

  async get(id: string, options: CallOptions = {}): Promise<ReplayJob> {
    return await this.#transport.call({ method: "GET", path: `${PATH}/${segment(id)}`, ...options });
  }

  /** Counts what the replays of the job have come to since. */
  async outcomes(id: string, options: CallOptions = {}): Promise<ReplayOutcomes> {
    return await this.#transport.call({ method: "GET", path: `${PATH}/${segment(id)}/outcomes`, ...options });
  }

  /** Lists the items with their results. */
  items(
    id: string,
    options: PageOptions & {
      readonly state?: ReplayItem["state"];
      readonly outcome?: NonNullable<ReplayItem["outcome"]>;
    } = {},
  ): List<ReplayItem> {
    return new List(this.#transport, `${PATH}/${segment(id)}/items`, options);
  }

  async pause(id: string, options: CallOptions = {}): Promise<ReplayJob> {
    return await this.#change(id, "pause", options);
  }

  async resume(id: string, options: CallOptions = {}): Promise<ReplayJob> {
    return await this.#change(id, "resume", options);
  }

  /** Cancels the job. Replayed items stay replayed; the rest stays as it is. */
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
