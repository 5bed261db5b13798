/**
 * Deliveries as they change, for streams of any number of clients. One loop for the process looks at the newest
 * deliveries of each tenant that somebody watches, one tenant after the other: what it costs the database grows with
 * neither clients nor deliveries, and the hot path pays nothing. A change of an older delivery is not told.
 */
import type { Delivery } from "../../database/repositories/webhooks/deliveries.ts";
import type { Clock } from "../../domain/clock.ts";
import { SignetError } from "../../domain/errors.ts";
import { Sleeper } from "../../runtime/sleeper.ts";
import type { DeliveryService } from "./delivery-service.ts";

/** The newest deliveries of a tenant that are followed. */
export const FOLLOWED = 200;
/** Of one tenant, in this process. */
export const STREAMS_PER_TENANT = 10;
const STREAMS_MAX = 500;
const POLL_MS = 1_000;
/** Of what came about so long before a position it may be that it was not seen there: outcomes that wait for the database. */
const LATE_MS = 300_000;

interface Watched {
  readonly streams: Set<DeliveryStream>;
  /** What is known of each followed delivery; undefined before the first look. */
  known: ReadonlyMap<string, string> | undefined;
  /** When that was looked up, Unix milliseconds. */
  lookedMs: number;
}

function versionOf({ state, cycle, attemptCount, nextAttemptAt }: Delivery): string {
  return `${state}/${cycle}/${attemptCount}/${nextAttemptAt?.getTime() ?? ""}`;
}

/** When a delivery came to stand as it does; undefined where its row does not say. */
function settledAt(delivery: Delivery): Date | null | undefined {
  const untouched = delivery.cycle === 1 && delivery.attemptCount === 0;
  const byState: Readonly<Record<Delivery["state"], Date | null | undefined>> = {
    QUEUED: untouched ? delivery.createdAt : undefined,
    RETRYING: undefined,
    DELIVERED: delivery.deliveredAt,
    DEAD_LETTERED: delivery.deadLetteredAt,
    EXPIRED: delivery.expiresAt,
    CANCELLED: undefined,
  };
  return byState[delivery.state];
}

/** Whether the delivery may have changed since then. What is told twice does no harm: it is told as it stands. */
function mayHaveChanged(delivery: Delivery, sinceMs: number): boolean {
  return (settledAt(delivery)?.getTime() ?? Infinity) >= sinceMs - LATE_MS;
}

/** What one client has yet to be told. A slow client is told the newest of each delivery, and never more than are followed. */
export class DeliveryStream {
  readonly #pending = new Map<string, Delivery>();
  readonly #sleeper = new Sleeper();
  readonly #sinceMs: number | undefined;
  #ready = false;
  #complete = true;
  #lookedMs = 0;
  #toldMs = 0;

  /** @param sinceMs the position that a client goes on from, Unix milliseconds */
  constructor(sinceMs?: number) {
    this.#sinceMs = sinceMs;
  }

  /** Whether changes are told from now on. */
  get ready(): boolean {
    return this.#ready;
  }

  /** Goes on from a position, and has not been told yet what came after it. */
  get resuming(): boolean {
    return this.#sinceMs !== undefined && !this.#ready;
  }

  /** False: since the position that it goes on from there came more than are followed. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Until when it has been told everything that {@link take} has handed out; Unix milliseconds. */
  get position(): number {
    return this.#toldMs;
  }

  /** Takes the newest deliveries, of which those are told that may have changed since the stream's position. */
  resume(newest: readonly Delivery[], lookedMs: number): void {
    const sinceMs = this.#sinceMs ?? lookedMs;
    const oldest = newest.at(-1);
    this.#complete = newest.length < FOLLOWED || oldest === undefined || oldest.createdAt.getTime() < sinceMs;
    this.push(newest.filter((delivery) => mayHaveChanged(delivery, sinceMs)).toReversed(), lookedMs);
  }

  /** Takes what has changed, oldest first, as of a look at that time. */
  push(changed: readonly Delivery[], lookedMs: number): void {
    this.#ready = true;
    this.#lookedMs = lookedMs;
    for (const delivery of changed) {
      this.#pending.delete(delivery.id);
      this.#pending.set(delivery.id, delivery);
    }
    for (const id of [...this.#pending.keys()].slice(0, Math.max(0, this.#pending.size - FOLLOWED))) {
      this.#pending.delete(id);
    }
    this.#sleeper.wake();
  }

  /** What has changed since the last call; waits for something to change, for at most so long. */
  async take(waitMs: number): Promise<readonly Delivery[]> {
    if (this.#pending.size === 0) {
      await this.#sleeper.sleep(waitMs);
    }
    const changed = [...this.#pending.values()];
    this.#pending.clear();
    this.#toldMs = this.#lookedMs;
    return changed;
  }

  /** Nobody waits any more. */
  end(): void {
    this.#sleeper.stop();
  }

  get ended(): boolean {
    return this.#sleeper.stopped;
  }
}

export class DeliveryStreams {
  readonly #deliveries: Pick<DeliveryService, "list">;
  readonly #clock: Clock;
  readonly #onFailure: (error: unknown) => void;
  readonly #watched = new Map<string, Watched>();
  #count = 0;
  readonly #sleeper = new Sleeper();
  #loop: Promise<void> | undefined;
  #closed = false;

  constructor(deliveries: Pick<DeliveryService, "list">, clock: Clock, onFailure: (error: unknown) => void) {
    this.#deliveries = deliveries;
    this.#clock = clock;
    this.#onFailure = onFailure;
  }

  /**
   * Follows a tenant's deliveries until {@link leave}.
   *
   * @param sinceMs also what has changed since this position of an earlier stream, of any process
   * @throws SignetError RATE_LIMITED with 10 streams of the tenant, or 500 in all
   */
  follow(tenantId: string, sinceMs?: number): DeliveryStream {
    const watched = this.#watched.get(tenantId) ?? { streams: new Set(), known: undefined, lookedMs: 0 };
    if (this.#closed || watched.streams.size >= STREAMS_PER_TENANT || this.#count >= STREAMS_MAX) {
      throw new SignetError("RATE_LIMITED", {
        detail: `${STREAMS_PER_TENANT} streams of a tenant may be open at once, and ${STREAMS_MAX} in all.`,
        headers: { "retry-after": "10" },
      });
    }
    const stream = new DeliveryStream(sinceMs);
    if (watched.known !== undefined && !stream.resuming) {
      stream.push([], watched.lookedMs);
    }
    watched.streams.add(stream);
    this.#watched.set(tenantId, watched);
    this.#count += 1;
    this.#loop ??= this.#run();
    return stream;
  }

  /** Gives the stream's place back. */
  leave(tenantId: string, stream: DeliveryStream): void {
    stream.end();
    const watched = this.#watched.get(tenantId);
    if (watched?.streams.delete(stream) === true) {
      this.#count -= 1;
      if (watched.streams.size === 0) {
        this.#watched.delete(tenantId);
      }
    }
  }

  /** Ends every stream. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#sleeper.stop();
    for (const { streams } of this.#watched.values()) {
      for (const stream of streams) {
        stream.end();
      }
    }
    await this.#loop;
  }

  async #run(): Promise<void> {
    while (this.#watched.size > 0 && !this.#closed) {
      for (const [tenantId, watched] of this.#watched) {
        await this.#look(tenantId, watched).catch(this.#onFailure);
      }
      // Not cut short by each one who comes: many who come and go must not make the loop run faster.
      await this.#sleeper.sleep(POLL_MS, { soundly: true });
    }
    this.#loop = undefined;
  }

  async #look(tenantId: string, watched: Watched): Promise<void> {
    const lookedMs = this.#clock.now();
    const newest = await this.#deliveries.list(tenantId, { filter: {}, before: undefined, limit: FOLLOWED });
    const { known } = watched;
    watched.lookedMs = lookedMs;
    watched.known = new Map(newest.map((delivery) => [delivery.id, versionOf(delivery)]));
    const changed =
      known === undefined
        ? []
        : newest.filter((delivery) => known.get(delivery.id) !== versionOf(delivery)).toReversed();
    for (const stream of watched.streams) {
      if (stream.resuming) {
        stream.resume(newest, lookedMs);
      } else {
        stream.push(changed, lookedMs);
      }
    }
  }
}
