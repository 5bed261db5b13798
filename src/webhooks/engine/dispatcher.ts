/**
 * From the outbox to Temporal: claims deliveries by writing their carrier, then starts the carrier's workflow. A lone
 * delivery goes at once; those that wait for a token go together. A crash between claim and start leaves a claim that
 * the sweep starts again: same carrier, same members, same epoch.
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
import { byCarrier } from "./by-carrier.ts";
import type { CarrierStarter } from "./carrier-starter.ts";
import type { EndpointHealth } from "../pacing/endpoint-health.ts";
import { Sleeper } from "../../runtime/sleeper.ts";
import { StartRate } from "./start-rate.ts";
import { Starts } from "./starts.ts";

/** Notifications are hints; this is the truth's pace. */
const POLL_MS = 1_000;
/** Deliveries to slow endpoints gather for so long: their latency is the receiver's already. */
const SLOW_LANE_MS = 250;
const RETRY_LANE_MS = 250;
const RETRY_LISTS_MAX = 32;
const RETRY_SPREAD_SECONDS = 2;
const SLOW_LISTS_MAX = 64;
const SWEEP_MS = 5_000;
/** A claim that has no outcome after so long may have no workflow. */
const UNSTARTED_AFTER_MS = 15_000;
const SWEEP_MAX = 500;
const BURST = 3;
/** How soon to look again when enough is under way. */
const FULL_MS = 5;

export interface DispatcherOptions {
  /** This worker's id, as claims have it. */
  readonly worker: string;
  readonly pool: Pool;
  readonly starter: CarrierStarter;
  readonly health: EndpointHealth;
  readonly clock: GuardedClock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
  /** Workflow starts per second of all live workers together. */
  readonly startsPerSecond: number;
  /** Most deliveries of one workflow; 1: never together. */
  readonly batchMax: number;
  /** First attempts under way in this process. */
  readonly underWay: () => number;
  /** Nothing is claimed while so many first attempts are under way: they wait better in the outbox. */
  readonly underWayMax: number;
}

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #rate: StartRate;
  readonly #starts: Starts;
  readonly #sleeper = new Sleeper();
  /** How many wait in the outbox, as far as notifications tell. */
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

  /** The outbox has got so many more. */
  hint(count: number): void {
    const before = this.#waiting;
    this.#waiting += count;
    // Between the first one and a full list there is nothing to do but wait for a token.
    if (before === 0 || this.#waiting >= this.#options.batchMax) {
      this.#sleeper.wake();
    }
  }

  /** Live workers share the rate. */
  shareWith(liveWorkers: number): void {
    this.#rate.allow(this.#options.startsPerSecond / Math.max(1, liveWorkers));
  }

  /** Stops claiming and waits for the starts under way. */
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
    const { underWay, underWayMax } = this.#options;
    return underWay() + this.#starts.membersUnderWay >= underWayMax;
  }

  /** One claim, if it is time for one; how long to wait for the next unless a notification comes first. */
  async #claimFirst(): Promise<number> {
    const { batchMax } = this.#options;
    // Where nothing may go together, waiting gains nothing: the starts under way are the only limit.
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

  /** Claims and starts one list, and keeps count of what is left; `known` waited when it was decided to. */
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

  /** A carrier is started with all the members that were claimed for it. */
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
