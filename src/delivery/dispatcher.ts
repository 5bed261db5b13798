/**
 * From the outbox to Temporal: claims deliveries by writing their carrier, then starts the carrier's workflow. A crash
 * between the two leaves a claim that the sweep starts again: same carrier, same members, same epoch.
 */
import type { Logger } from "pino";
import type { Pool } from "../database/pool.ts";
import {
  type Claimed,
  claimDeliveries,
  expireOverdue,
  reclaimUnstarted,
} from "../database/repositories/carriers.ts";
import type { Clock } from "../domain/clock.ts";
import { newId, type RandomBytes } from "../domain/ids.ts";
import type { CarrierStarter } from "./carrier-starter.ts";

const CLAIM_MAX = 64;
const STARTS_IN_FLIGHT_MAX = 8;
/** Notifications are hints; this is the truth's pace. */
const POLL_MS = 1_000;
const SWEEP_MS = 5_000;
/** A claim that has no outcome after so long may have no workflow. */
const UNSTARTED_AFTER_MS = 15_000;
const SWEEP_MAX = 500;
const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 5_000;

export interface DispatcherOptions {
  readonly pool: Pool;
  readonly starter: CarrierStarter;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
}

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #starts = new Set<Promise<void>>();
  #stopped = false;
  #hinted = true;
  #pauseMs = 0;
  readonly #sleepers = new Set<() => void>();
  #loops: Promise<unknown> | undefined;

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  start(): void {
    this.#loops ??= Promise.all([this.#dispatch(), this.#sweep()]);
  }

  /** The outbox may have something. */
  hint(): void {
    this.#hinted = true;
    this.#wake();
  }

  /** Stops claiming and waits for the starts under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#wake();
    await this.#loops;
    await Promise.allSettled(this.#starts);
  }

  async #dispatch(): Promise<void> {
    const { log } = this.#options;
    while (!this.#stopped) {
      this.#hinted = false;
      let claimed = 0;
      try {
        claimed = await this.#claim();
      } catch (error) {
        log.warn({ err: error }, "outbox could not be read");
      }
      if (this.#pauseMs > 0) {
        await this.#sleep(this.#pauseMs, { throughHints: true });
      } else if (claimed < CLAIM_MAX) {
        await this.#sleep(POLL_MS, { throughHints: false });
      }
    }
  }

  async #claim(): Promise<number> {
    const { pool, clock, randomBytes } = this.#options;
    const now = clock.now();
    const carriers = Array.from({ length: CLAIM_MAX }, () => newId("batch", now, randomBytes));
    const claimed = await claimDeliveries(pool, carriers, new Date(now));
    for (const delivery of claimed) {
      await this.#launch(delivery.carrier, [delivery]);
    }
    return claimed.length;
  }

  async #sweep(): Promise<void> {
    while (!this.#stopped) {
      try {
        await this.#sweepOnce();
      } catch (error) {
        this.#options.log.warn({ err: error }, "sweep failed");
      }
      await this.#sleep(SWEEP_MS, { throughHints: true });
    }
  }

  async #sweepOnce(): Promise<void> {
    const { pool, clock } = this.#options;
    const now = clock.now();
    const unstarted = await reclaimUnstarted(pool, {
      before: new Date(now - UNSTARTED_AFTER_MS),
      now: new Date(now),
      limit: SWEEP_MAX,
    });
    for (const [carrier, members] of byCarrier(unstarted)) {
      await this.#launch(carrier, members);
    }
    await expireOverdue(pool, new Date(now), SWEEP_MAX);
  }

  async #launch(carrier: string, members: readonly Claimed[]): Promise<void> {
    while (this.#starts.size >= STARTS_IN_FLIGHT_MAX) {
      await Promise.race(this.#starts);
    }
    const start = this.#startOne(carrier, members).finally(() => this.#starts.delete(start));
    this.#starts.add(start);
  }

  async #startOne(carrier: string, members: readonly Claimed[]): Promise<void> {
    try {
      await this.#options.starter.start(carrier, members);
      this.#pauseMs = 0;
    } catch (error) {
      // The claim stays: the sweep starts it again. Claiming more meanwhile would only make its list longer.
      this.#pauseMs = Math.min(PAUSE_MAX_MS, Math.max(PAUSE_FIRST_MS, this.#pauseMs * 2));
      this.#options.log.warn(
        { err: error, carrier, pauseMs: this.#pauseMs },
        "workflow could not be started",
      );
    }
  }

  /** Until time has passed or the dispatcher stops; hints end it unless it sleeps through them. */
  async #sleep(ms: number, { throughHints }: { readonly throughHints: boolean }): Promise<void> {
    const until = performance.now() + ms;
    const over = (): boolean =>
      this.#stopped || performance.now() >= until || (this.#hinted && !throughHints);
    while (!over()) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          clearTimeout(timer);
          this.#sleepers.delete(done);
          resolve();
        };
        const timer = setTimeout(done, Math.max(0, until - performance.now()));
        this.#sleepers.add(done);
      });
    }
  }

  #wake(): void {
    for (const done of this.#sleepers) {
      done();
    }
  }
}

/** A claim is started again as it was: same carrier, same members. */
function byCarrier(claims: readonly Claimed[]): Map<string, Claimed[]> {
  const groups = new Map<string, Claimed[]>();
  for (const claim of claims) {
    const group = groups.get(claim.carrier);
    if (group === undefined) {
      groups.set(claim.carrier, [claim]);
    } else {
      group.push(claim);
    }
  }
  return groups;
}
