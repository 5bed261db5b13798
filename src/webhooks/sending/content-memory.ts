/**
 * Bounds the memory for large contents of this process and shares it fairly. A slow receiver keeps its bodies in
 * memory for up to ten seconds and must not block others.
 */
import type { LoadedDelivery } from "#database/repositories/webhooks/attempts.ts";
import { createBatcher } from "#database/batcher.ts";
import type { Timers } from "#domain/clock.ts";
import type { Pool } from "#database/pool.ts";
import { type ContentKey, loadContents } from "#database/repositories/webhooks/event-contents.ts";

/** Bytes of sealed content. The request body holds each of them once more. */
const HEALTHY_BYTES_MAX = 33_554_432;
const SLOW_BYTES_MAX = 16_777_216;
/** One endpoint gets at most a quarter of either limit. */
const ENDPOINT_SHARE = 4;
/** Temporal's timers cover longer waits. */
const WAIT_MAX_MS = 2_000;
const LOAD_ITEMS_MAX = 64;
const LOADS_IN_FLIGHT_MAX = 2;
/** Maximum of sealed content in one answer of PostgreSQL, in bytes. */
const LOAD_BYTES_MAX = 2_097_152;
/** Pause before the next try after the limit was reached, in milliseconds. */
export const MEMORY_PAUSE_MS = 1_000;

/** A content to send. */
interface Entry {
  readonly endpointId: string;
  readonly bytes: number;
}

interface Waiting extends Entry {
  readonly grant: (granted: boolean) => void;
}

/** Serves waiters in order, except those whose endpoint has used up its share. */
class Lane {
  readonly #timers: Timers;
  readonly #max: number;
  readonly #byEndpoint = new Map<string, number>();
  readonly #waiting = new Set<Waiting>();
  #used = 0;

  constructor(max: number, timers: Timers) {
    this.#timers = timers;
    this.#max = max;
  }

  /** Number of waiters while the lane is full; 0 if they wait only for their endpoint's share. */
  get waitingCount(): number {
    return [...this.#waiting].some((entry) => !this.#fits(entry) && this.#withinShare(entry))
      ? this.#waiting.size
      : 0;
  }

  async enter(entry: Entry, waitMs: number): Promise<boolean> {
    if (this.#fits(entry)) {
      this.#take(entry, entry.bytes);
      return true;
    }
    return await new Promise<boolean>((resolve) => {
      const waiting = {
        ...entry,
        grant: (granted: boolean): void => {
          this.#timers.cancel(timer);
          this.#waiting.delete(waiting);
          resolve(granted);
        },
      };
      const timer = this.#timers.after(waitMs, waiting.grant, false);
      this.#waiting.add(waiting);
    });
  }

  leave(entry: Entry): void {
    this.#take(entry, -entry.bytes);
    for (const waiting of this.#waiting) {
      if (this.#used >= this.#max) {
        return;
      }
      if (this.#fits(waiting)) {
        this.#take(waiting, waiting.bytes);
        waiting.grant(true);
      }
    }
  }

  /** Whether the content fits. A content larger than the whole limit runs alone. */
  #fits(entry: Entry): boolean {
    return (this.#used === 0 || this.#used + entry.bytes <= this.#max) && this.#withinShare(entry);
  }

  #withinShare({ endpointId, bytes }: Entry): boolean {
    const has = this.#byEndpoint.get(endpointId) ?? 0;
    return has === 0 || has + bytes <= this.#max / ENDPOINT_SHARE;
  }

  #take({ endpointId }: Entry, bytes: number): void {
    this.#used += bytes;
    const has = (this.#byEndpoint.get(endpointId) ?? 0) + bytes;
    if (has === 0) {
      this.#byEndpoint.delete(endpointId);
    } else {
      this.#byEndpoint.set(endpointId, has);
    }
  }
}

/** Reserves memory for large contents, from before they are loaded until their request has ended. */
export class ContentMemory {
  readonly #load: (key: ContentKey) => Promise<Buffer | undefined>;
  readonly #healthy: Lane;
  readonly #slow: Lane;
  /** Contents by event, shared by concurrent deliveries of the event. */
  readonly #held = new Map<string, { readonly content: Promise<Buffer | undefined>; users: number }>();

  constructor(load: (key: ContentKey) => Promise<Buffer | undefined>, timers: Timers) {
    this.#load = load;
    this.#healthy = new Lane(HEALTHY_BYTES_MAX, timers);
    this.#slow = new Lane(SLOW_BYTES_MAX, timers);
  }

  /** Number of waiters for healthy endpoints. While there are any, nothing more needs to be claimed. */
  get waitingCount(): number {
    return this.#healthy.waitingCount;
  }

  /**
   * Sends a delivery with its content, after waiting up to 2 s for memory. Deliveries with a small or no content need
   * none.
   *
   * @param slow whether the endpoint is slow or failing; those have a separate limit
   * @returns the result of `send`; "full" if there was no memory in time, undefined if the content is gone
   * @throws if the database cannot be read
   */
  async during<T>(
    delivery: LoadedDelivery,
    slow: boolean,
    send: (whole: LoadedDelivery) => Promise<T>,
  ): Promise<T | "full" | undefined> {
    const { endpoint_id: endpointId, event_id: eventId, content, content_bytes: bytes } = delivery;
    if (content !== null || bytes === null) {
      return await send(delivery);
    }
    const lane = slow ? this.#slow : this.#healthy;
    const entry = { endpointId, bytes };
    if (!(await lane.enter(entry, WAIT_MAX_MS))) {
      return "full";
    }
    const held = this.#held.get(eventId) ?? { content: this.#load({ eventId, bytes }), users: 0 };
    this.#held.set(eventId, held);
    held.users += 1;
    try {
      const loaded = await held.content;
      return loaded === undefined ? undefined : await send({ ...delivery, content: loaded });
    } finally {
      held.users -= 1;
      if (held.users === 0) {
        this.#held.delete(eventId);
      }
      lane.leave(entry);
    }
  }
}

/** Creates the memory for contents that are loaded from the database. */
export function createContentMemory(pool: Pool, timers: Timers): ContentMemory {
  const contents = createBatcher({
    timers,
    maxItems: LOAD_ITEMS_MAX,
    maxInFlight: LOADS_IN_FLIGHT_MAX,
    size: { of: ({ bytes }: ContentKey) => bytes, max: LOAD_BYTES_MAX },
    flush: async (keys) => await loadContents(pool, keys),
  });
  return new ContentMemory(async (key) => await contents.add(key), timers);
}
