/**
 * Bounds the large contents that this process holds in memory, and shares them fairly: a receiver that is slow to answer
 * keeps its bodies here for up to ten seconds, and must not keep those of others out.
 */
import type { LoadedDelivery } from "../../database/repositories/webhooks/attempts.ts";
import type { ContentKey } from "../../database/repositories/webhooks/event-contents.ts";

/** Bytes of sealed content; each is held again as the body of its request. */
const HEALTHY_BYTES_MAX = 33_554_432;
const SLOW_BYTES_MAX = 16_777_216;
/** What one endpoint may have of either: a quarter. */
const ENDPOINT_SHARE = 4;
/** Longer waits are left to Temporal's timers. */
const WAIT_MAX_MS = 2_000;
/** Until what found no room tries again. */
export const ROOM_PAUSE_MS = 1_000;

/** A content that is to be sent. */
interface Entry {
  readonly endpointId: string;
  readonly bytes: number;
}

interface Waiting extends Entry {
  readonly grant: (granted: boolean) => void;
}

/** First come, first served, but for endpoints that have their share. */
class Lane {
  readonly #max: number;
  readonly #byEndpoint = new Map<string, number>();
  readonly #waiting = new Set<Waiting>();
  #used = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Who waits because the lane is full; 0 while only endpoints with their share do. */
  get crowd(): number {
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
          clearTimeout(timer);
          this.#waiting.delete(waiting);
          resolve(granted);
        },
      };
      const timer = setTimeout(waiting.grant, waitMs, false);
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

  /** A content that is larger than all of it has it to itself. */
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

/** Room for large contents, from before their load until their request has ended. */
export class ContentRoom {
  readonly #load: (key: ContentKey) => Promise<Buffer | undefined>;
  readonly #healthy = new Lane(HEALTHY_BYTES_MAX);
  readonly #slow = new Lane(SLOW_BYTES_MAX);
  /** Deliveries of one event that are under way together share it. */
  readonly #held = new Map<string, { readonly content: Promise<Buffer | undefined>; users: number }>();

  constructor(load: (key: ContentKey) => Promise<Buffer | undefined>) {
    this.#load = load;
  }

  /** How many wait for room at healthy endpoints: nothing more needs to be claimed for now. */
  get crowd(): number {
    return this.#healthy.crowd;
  }

  /**
   * Sends a delivery with its content, for which it waits for room: 2 s at most. What was loaded with a small content, or
   * has none, needs no room.
   *
   * @param slow whether the endpoint is slow or failing: those have room of their own
   * @returns what `send` returns; "full" when there was no room in time, undefined when the content is gone
   * @throws when the database cannot be read
   */
  async during<T>(
    delivery: LoadedDelivery,
    slow: boolean,
    send: (whole: LoadedDelivery) => Promise<T>,
  ): Promise<T | "full" | undefined> {
    const { endpointId, eventId, content, contentBytes: bytes } = delivery;
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
