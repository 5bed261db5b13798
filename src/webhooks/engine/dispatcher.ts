/**
 * Moves deliveries from the outbox to Temporal: claims them by writing their carrier, then starts the carrier's
 * workflow. A lone delivery goes immediately; deliveries that wait for a token go together. After a crash between
 * claim and start, the sweep starts the claim again, with the same carrier, members and epoch.
 */
import type { Logger } from "pino";
import type { Pool } from "../../database/pool.ts";
import { expireOverdue } from "../../database/repositories/webhooks/carriers.ts";
import {
  type Claimed,
  claimFirst,
  claimForEndpoints,
  claimRetries,
  reclaimUnstarted,
} from "../../database/repositories/webhooks/claims.ts";
import type { GuardedClock } from "../../domain/clock.ts";
import { newId, type RandomBytes } from "../../domain/ids.ts";
import type { AttemptService } from "./attempt-service.ts";
import { byCarrier } from "./by-carrier.ts";
import type { CarrierStarter } from "./carrier-starter.ts";
import type { EndpointHealth } from "../pacing/endpoint-health.ts";
import { Sleeper } from "../../runtime/sleeper.ts";
import { StartRate } from "./start-rate.ts";
import { Starts } from "./starts.ts";

/** Notifications are only hints, so the outbox is also polled. */
const POLL_MS = 1_000;
/** Deliveries to slow endpoints are collected for this long. Their receivers add more latency than that. */
const SLOW_LANE_MS = 250;
const RETRY_LANE_MS = 250;
const RETRY_LISTS_MAX = 32;
const RETRY_SPREAD_SECONDS = 2;
const SLOW_LISTS_MAX = 64;
const SWEEP_MS = 5_000;
/** A claim without an outcome after this time may have no workflow. */
const UNSTARTED_AFTER_MS = 15_000;
const SWEEP_MAX = 500;
const BURST = 3;
/** Pause while the limit of first attempts in progress is reached. */
const FULL_MS = 5;

export interface DispatcherOptions {
  /** Id of this worker in claims. */
  readonly worker: string;
  readonly pool: Pool;
  readonly starter: CarrierStarter;
  readonly health: EndpointHealth;
  readonly clock: GuardedClock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
  /** Workflow starts per second of all live workers together. */
  readonly startsPerSecond: number;
  /** Maximum number of deliveries per workflow; 1 disables batching. */
  readonly batchMax: number;
  readonly attempts: AttemptService;
  /** Claims stop at this number of first attempts in progress. Deliveries then wait in the outbox. */
  readonly underWayMax: number;
}

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #rate: StartRate;
  readonly #starts: Starts;
  readonly #sleeper = new Sleeper();
  /** Estimated size of the outbox, from notifications. */
  #waiting = 0;
  #afterTenant = "";
  #loops: Promise<unknown> | undefined;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#rate = new StartRate({ perSecond: options.startsPerSecond, burst: BURST }, performance.now());
    this.#starts = new Starts({
      log: options.log,
      onStarted: (tookMs, alone) => this.#rate.learn(tookMs, alone),
    });
  }

  start(): void {
    this.#loops ??= Promise.all([
      this.#firstLane(),
      this.#every(SLOW_LANE_MS, "slow lane", async () => await this.#slowLane()),
      this.#every(RETRY_LANE_MS, "retry lane", async () => await this.#retryLane()),
      this.#every(SWEEP_MS, "sweep", async () => await this.#sweep()),
    ]);
  }

  /** Reports new deliveries in the outbox. */
  hint(count: number): void {
    const before = this.#waiting;
    this.#waiting += count;
    // Between the first delivery and a full list, only a token is worth waking for.
    if (before === 0 || this.#waiting >= this.#options.batchMax) {
      this.#sleeper.wake();
    }
  }

  /** Sets the number of live workers, which share the rate. */
  shareWith(liveWorkers: number): void {
    this.#rate.allow(this.#options.startsPerSecond / Math.max(1, liveWorkers));
  }

  /** Stops claiming and waits for the starts in progress. */
  async stop(): Promise<void> {
    this.#sleeper.stop();
    await this.#loops;
    await this.#starts.settle();
  }

  async #firstLane(): Promise<void> {
    while (!this.#sleeper.stopped) {
      try {
        await this.#sleeper.sleep(this.#starts.pauseMs, { soundly: true });
        if (!this.#options.clock.isRight) {
          await this.#sleeper.sleep(POLL_MS, { soundly: true });
        } else if (this.#isFull()) {
          await this.#sleeper.sleep(FULL_MS, { soundly: true });
        } else {
          await this.#sleeper.sleep(await this.#claimFirst());
        }
      } catch (error) {
        this.#options.log.warn({ err: error }, "outbox could not be read");
        await this.#sleeper.sleep(POLL_MS, { soundly: true });
      }
    }
  }

  #isFull(): boolean {
    const { attempts, underWayMax } = this.#options;
    return attempts.firstUnderWay + this.#starts.membersUnderWay >= underWayMax;
  }

  /** Claims once if it is time to. Returns how long to wait for the next claim unless a notification comes first. */
  async #claimFirst(): Promise<number> {
    const { batchMax } = this.#options;
    // Without batching, waiting gains nothing. The starts in progress are the only limit.
    const alone = batchMax === 1;
    const token = !alone && this.#rate.take(performance.now());
    const known = this.#waiting;
    if (!alone && !token && known < batchMax) {
      return this.#rate.waitMs(performance.now());
    }
    const claimed = await this.#claimList(alone || token ? 1 : batchMax, known);
    if (token && (claimed === 0 || claimed === batchMax)) {
      this.#rate.giveBack();
    }
    return this.#waitForNext(alone);
  }

  #waitForNext(alone: boolean): number {
    if (this.#waiting === 0) {
      return POLL_MS;
    }
    return alone || this.#waiting >= this.#options.batchMax ? 0 : this.#rate.waitMs(performance.now());
  }

  /** Claims and starts one list, and updates the estimate. `known` is the estimate before the claim. */
  async #claimList(atLeast: number, known: number): Promise<number> {
    const { pool, clock, health, starter, batchMax } = this.#options;
    const now = clock.now();
    const { claimed, more, nextTenant } = await claimFirst(pool, {
      atLeast,
      limit: batchMax,
      carrier: this.#newCarrier(now),
      exceptEndpoints: health.slow(now),
      afterTenant: this.#afterTenant,
      worker: this.#options.worker,
      now: new Date(now),
    });
    this.#afterTenant = nextTenant;
    await this.#startAll(
      claimed,
      async (carrier, members) => await starter.startFirst(carrier, members, false),
    );
    const full = claimed.length === batchMax;
    const left = more || full ? Math.max(known - claimed.length, full ? batchMax : 1) : 0;
    this.#waiting = this.#waiting - known + left;
    return claimed.length;
  }

  async #slowLane(): Promise<void> {
    const { worker, pool, clock, health, starter, batchMax } = this.#options;
    const now = clock.now();
    const slow = health.slow(now);
    for (let from = 0; from < slow.length && this.#starts.pauseMs === 0; from += SLOW_LISTS_MAX) {
      const endpointIds = slow.slice(from, from + SLOW_LISTS_MAX);
      const claimed = await claimForEndpoints(pool, {
        endpointIds,
        carriers: endpointIds.map(() => this.#newCarrier(now)),
        listMax: batchMax,
        worker,
        now: new Date(now),
      });
      await this.#startAll(
        claimed,
        async (carrier, members) => await starter.startFirst(carrier, members, true),
      );
    }
  }

  async #retryLane(): Promise<void> {
    const { worker, pool, clock, starter, batchMax } = this.#options;
    const now = clock.now();
    if (this.#starts.pauseMs > 0) {
      return;
    }
    const claimed = await claimRetries(pool, {
      carriers: Array.from({ length: RETRY_LISTS_MAX }, () => this.#newCarrier(now)),
      listMax: batchMax,
      worker,
      spreadSeconds: RETRY_SPREAD_SECONDS,
      now: new Date(now),
    });
    await this.#startAll(claimed, async (carrier, members) => await starter.startRetries(carrier, members));
  }

  async #sweep(): Promise<void> {
    const { pool, clock, starter } = this.#options;
    const now = clock.now();
    const unstarted = await reclaimUnstarted(pool, {
      before: new Date(now - UNSTARTED_AFTER_MS),
      now: new Date(now),
      limit: SWEEP_MAX,
    });
    await this.#startAll(
      unstarted,
      async (carrier, members) => await starter.startFirst(carrier, members, false),
    );
    await expireOverdue(pool, new Date(now), SWEEP_MAX);
  }

  /** Starts each carrier with all the members that were claimed for it. */
  async #startAll<T extends Claimed>(
    claimed: readonly T[],
    start: (carrier: string, members: readonly T[]) => Promise<void>,
  ): Promise<void> {
    for (const [carrier, members] of byCarrier(claimed)) {
      await this.#starts.begin(carrier, members.length, async () => await start(carrier, members));
    }
  }

  async #every(ms: number, name: string, round: () => Promise<void>): Promise<void> {
    while (!this.#sleeper.stopped) {
      try {
        if (this.#options.clock.isRight) {
          await round();
        }
      } catch (error) {
        this.#options.log.warn({ err: error }, `${name} failed`);
      }
      await this.#sleeper.sleep(ms, { soundly: true });
    }
  }

  #newCarrier(nowMs: number): string {
    return newId("batch", nowMs, this.#options.randomBytes);
  }
}
