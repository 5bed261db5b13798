/**
 * Streams of changes of deliveries and of endpoints' health, for any number of clients. One loop per process reads the newest deliveries of each
 * watched tenant in turn. Its database cost grows with neither clients nor deliveries, and the hot path pays nothing.
 * Changes of older deliveries are not reported.
 */
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import type { Health } from "#domain/endpoint-health.ts";
import { tooManyRequests } from "#domain/errors.ts";
import { Sleeper } from "#runtime/sleeper.ts";
import type { DeliveryService } from "./delivery-service.ts";

/** Number of newest deliveries followed per tenant. */
export const FOLLOWED = 200;
/** Streams per tenant in this process. */
export const STREAMS_PER_TENANT = 10;
const STREAMS_MAX = 500;
const RETRY_AFTER_MS = 10_000;
const POLL_MS = 1_000;
/** A change this long before a position may have been missed, because outcomes can wait for the database. */
const LATE_MS = 300_000;

/** The health of an endpoint, when it has changed. */
export interface ChangedHealth {
  readonly endpoint_id: string;
  readonly health: Health;
}

/** What the loop reads of a tenant. */
export interface StreamServices {
  /** Returns the newest deliveries. */
  readonly list: DeliveryService["list"];
  /** Returns the endpoints that are not healthy. */
  readonly unhealthy: (tenantId: string) => Promise<readonly ChangedHealth[]>;
}

interface Watched {
  readonly streams: Set<DeliveryStream>;
  /** Version of each followed delivery; undefined before the first read. */
  known: ReadonlyMap<string, string> | undefined;
  /** Health of each endpoint that is not healthy; undefined before the first read. */
  unhealthy: ReadonlyMap<string, Health> | undefined;
  /** Time of the last read, in Unix milliseconds. */
  lookedMs: number;
}

function versionOf({
  state,
  cycle,
  attempt_count: attemptCount,
  next_attempt_at: nextAttemptAt,
}: Delivery): string {
  return `${state}/${cycle}/${attemptCount}/${nextAttemptAt?.getTime() ?? ""}`;
}

/** Returns when the delivery reached its state; undefined if its row does not say. */
function settledAt(delivery: Delivery): Date | null | undefined {
  const untouched = delivery.cycle === 1 && delivery.attempt_count === 0;
  const byState: Readonly<Record<Delivery["state"], Date | null | undefined>> = {
    QUEUED: untouched ? delivery.created_at : undefined,
    RETRYING: undefined,
    DELIVERED: delivery.delivered_at,
    DEAD_LETTERED: delivery.dead_lettered_at,
    EXPIRED: delivery.expires_at,
    CANCELLED: undefined,
  };
  return byState[delivery.state];
}

/** Whether the delivery may have changed since then. Repeated reports are harmless: each has the current state. */
function mayHaveChanged(delivery: Delivery, sinceMs: number): boolean {
  return (settledAt(delivery)?.getTime() ?? Infinity) >= sinceMs - LATE_MS;
}

/**
 * Unreported changes for one client. A slow client gets the newest state of each delivery, and never more than are
 * followed.
 */
export class DeliveryStream {
  readonly #pending = new Map<string, Delivery>();
  readonly #pendingHealth = new Map<string, ChangedHealth>();
  readonly #sleeper: Sleeper;
  readonly #sinceMs: number | undefined;
  #ready = false;
  #complete = true;
  #lookedMs = 0;
  #toldMs = 0;

  /** @param sinceMs position to resume from, in Unix milliseconds */
  constructor(timers: Timers, sinceMs?: number) {
    this.#sleeper = new Sleeper(timers);
    this.#sinceMs = sinceMs;
  }

  /** Whether changes are reported from now on. */
  get ready(): boolean {
    return this.#ready;
  }

  /** Whether the stream resumes from a position and still lacks the changes since then. */
  get resuming(): boolean {
    return this.#sinceMs !== undefined && !this.#ready;
  }

  /** False if more changes followed the resumed position than are kept. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Time up to which {@link take} has returned everything, in Unix milliseconds. */
  get position(): number {
    return this.#toldMs;
  }

  /** Takes the newest deliveries, and reports those that may have changed since the stream's position. */
  resume(newest: readonly Delivery[], lookedMs: number): void {
    const sinceMs = this.#sinceMs ?? lookedMs;
    const oldest = newest.at(-1);
    this.#complete =
      newest.length < FOLLOWED || oldest === undefined || oldest.created_at.getTime() < sinceMs;
    this.push(newest.filter((delivery) => mayHaveChanged(delivery, sinceMs)).toReversed(), lookedMs);
  }

  /** Adds changes, oldest first, with the time they were read. */
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

  /** Adds changes of health. The next changes of deliveries wake the reader. */
  pushHealth(changed: readonly ChangedHealth[]): void {
    for (const change of changed) {
      this.#pendingHealth.set(change.endpoint_id, change);
    }
  }

  /** Returns the changes of health since the last call. */
  takeHealth(): readonly ChangedHealth[] {
    const changed = [...this.#pendingHealth.values()];
    this.#pendingHealth.clear();
    return changed;
  }

  /** Returns the changes since the last call. Waits for a change for at most `waitMs`. */
  async take(waitMs: number): Promise<readonly Delivery[]> {
    if (this.#pending.size === 0 && this.#pendingHealth.size === 0) {
      await this.#sleeper.sleep(waitMs);
    }
    const changed = [...this.#pending.values()];
    this.#pending.clear();
    this.#toldMs = this.#lookedMs;
    return changed;
  }

  /** Ends the stream and wakes its reader. */
  end(): void {
    this.#sleeper.stop();
  }

  get ended(): boolean {
    return this.#sleeper.stopped;
  }
}

export class DeliveryStreams {
  readonly #sources: StreamServices;
  readonly #clock: Clock;
  readonly #onFailure: (error: unknown) => void;
  readonly #watched = new Map<string, Watched>();
  #count = 0;
  readonly #timers: Timers;
  readonly #sleeper: Sleeper;
  #loop: Promise<void> | undefined;
  #closed = false;

  constructor(
    sources: StreamServices,
    { clock, timers }: { readonly clock: Clock; readonly timers: Timers },
    onFailure: (error: unknown) => void,
  ) {
    this.#timers = timers;
    this.#sleeper = new Sleeper(timers);
    this.#sources = sources;
    this.#clock = clock;
    this.#onFailure = onFailure;
  }

  /**
   * Follows a tenant's deliveries until {@link leave}.
   *
   * @param sinceMs position of an earlier stream of any process; later changes are reported too
   * @throws SignetError RATE_LIMITED at 10 streams of the tenant, or 500 in total
   */
  follow(tenantId: string, sinceMs?: number): DeliveryStream {
    const watched = this.#watched.get(tenantId) ?? {
      streams: new Set(),
      known: undefined,
      unhealthy: undefined,
      lookedMs: 0,
    };
    if (this.#closed || watched.streams.size >= STREAMS_PER_TENANT || this.#count >= STREAMS_MAX) {
      throw tooManyRequests(
        RETRY_AFTER_MS,
        `${STREAMS_PER_TENANT} streams per tenant may be open at once, and ${STREAMS_MAX} in total.`,
      );
    }
    const stream = new DeliveryStream(this.#timers, sinceMs);
    if (watched.known !== undefined && !stream.resuming) {
      stream.push([], watched.lookedMs);
    }
    watched.streams.add(stream);
    this.#watched.set(tenantId, watched);
    this.#count += 1;
    this.#loop ??= this.#run();
    return stream;
  }

  /** Closes a stream and frees its slot. */
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
      // A new stream does not wake the loop, so that clients that come and go cannot speed it up.
      await this.#sleeper.sleep(POLL_MS, { soundly: true });
    }
    this.#loop = undefined;
  }

  async #look(tenantId: string, watched: Watched): Promise<void> {
    const lookedMs = this.#clock.now();
    const page = { filter: {}, before: undefined, limit: FOLLOWED };
    const { rows: newest } = await this.#sources.list(tenantId, page);
    const health = await this.#changedHealth(tenantId, watched);
    const { known } = watched;
    watched.lookedMs = lookedMs;
    watched.known = new Map(newest.map((delivery) => [delivery.id, versionOf(delivery)]));
    const changed =
      known === undefined
        ? []
        : newest.filter((delivery) => known.get(delivery.id) !== versionOf(delivery)).toReversed();
    for (const stream of watched.streams) {
      stream.pushHealth(health);
      if (stream.resuming) {
        stream.resume(newest, lookedMs);
      } else {
        stream.push(changed, lookedMs);
      }
    }
  }
  async #changedHealth(tenantId: string, watched: Watched): Promise<readonly ChangedHealth[]> {
    const before = watched.unhealthy;
    const found = await this.#sources.unhealthy(tenantId);
    const after = new Map(found.map(({ endpoint_id: id, health }) => [id, health]));
    watched.unhealthy = after;
    if (before === undefined) {
      return [];
    }
    const recovered = [...before.keys()].filter((id) => !after.has(id));
    return [
      ...found.filter(({ endpoint_id: id, health }) => before.get(id) !== health),
      ...recovered.map((id) => ({ endpoint_id: id, health: "healthy" as const })),
    ];
  }
}
