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

export interface Dispatcher {
  start(): void;
  /** The outbox may have something. */
  hint(): void;
  /** Stops claiming and waits for the starts under way. */
  stop(): Promise<void>;
}

export interface DispatcherOptions {
  readonly pool: Pool;
  readonly starter: CarrierStarter;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
}

/** A claim is started again as it was: same carrier, same members. */
function byCarrier(claims: readonly Claimed[]): Map<string, Claimed[]> {
  const groups = new Map<string, Claimed[]>();
  for (const claim of claims) {
    groups.set(claim.carrier, [...(groups.get(claim.carrier) ?? []), claim]);
  }
  return groups;
}

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { pool, clock, log } = options;
  const starts = new Set<Promise<void>>();
  let stopped = false;
  let hinted = true;
  let pauseMs = 0;
  let wake: () => void = () => undefined;
  let loops: Promise<unknown> | undefined;

  /** Sleeps until time has passed, a hint comes or the dispatcher stops. */
  async function idle(ms: number): Promise<void> {
    if (hinted || stopped) {
      return;
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async function startOne(carrier: string, members: readonly Claimed[]): Promise<void> {
    try {
      await options.starter.start(carrier, members);
      pauseMs = 0;
    } catch (error) {
      // The claim stays: the sweep starts it again. Claiming more meanwhile would only make its list longer.
      pauseMs = Math.min(PAUSE_MAX_MS, Math.max(PAUSE_FIRST_MS, pauseMs * 2));
      log.warn({ err: error, carrier, pauseMs }, "workflow could not be started");
    }
  }

  async function launch(carrier: string, members: readonly Claimed[]): Promise<void> {
    while (starts.size >= STARTS_IN_FLIGHT_MAX) {
      await Promise.race(starts);
    }
    const start = startOne(carrier, members).finally(() => starts.delete(start));
    starts.add(start);
  }

  async function claimOnce(): Promise<number> {
    const now = clock.now();
    const carriers = Array.from({ length: CLAIM_MAX }, () => newId("batch", now, options.randomBytes));
    const claimed = await claimDeliveries(pool, carriers, new Date(now));
    for (const delivery of claimed) {
      await launch(delivery.carrier, [delivery]);
    }
    return claimed.length;
  }

  async function dispatchLoop(): Promise<void> {
    while (!stopped) {
      hinted = false;
      let more = false;
      try {
        more = (await claimOnce()) === CLAIM_MAX;
      } catch (error) {
        log.warn({ err: error }, "outbox could not be read");
      }
      if (pauseMs > 0) {
        await sleepUnlessStopped(pauseMs);
      } else if (!more) {
        await idle(POLL_MS);
      }
    }
  }

  async function sleepUnlessStopped(ms: number): Promise<void> {
    const until = performance.now() + ms;
    while (!stopped && performance.now() < until) {
      await new Promise((resolve) => {
        setTimeout(resolve, Math.min(100, until - performance.now()));
      });
    }
  }

  async function sweepOnce(): Promise<void> {
    const now = clock.now();
    const unstarted = await reclaimUnstarted(pool, {
      before: new Date(now - UNSTARTED_AFTER_MS),
      now: new Date(now),
      limit: SWEEP_MAX,
    });
    for (const [carrier, members] of byCarrier(unstarted)) {
      await launch(carrier, members);
    }
    await expireOverdue(pool, new Date(now), SWEEP_MAX);
  }

  async function sweepLoop(): Promise<void> {
    while (!stopped) {
      try {
        await sweepOnce();
      } catch (error) {
        log.warn({ err: error }, "sweep failed");
      }
      await sleepUnlessStopped(SWEEP_MS);
    }
  }

  return {
    start: () => {
      loops ??= Promise.all([dispatchLoop(), sweepLoop()]);
    },
    hint: () => {
      hinted = true;
      wake();
    },
    stop: async () => {
      stopped = true;
      wake();
      await loops;
      await Promise.allSettled(starts);
    },
  };
}
