/** Live workers share the rate of claims, the notifications, and the claims of dead workers. */
import { beatWorker } from "#database/repositories/health.ts";
import type { Clock } from "#domain/clock.ts";
import { metrics } from "#observability/metrics.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { handBackOfDead, type HandBackServices } from "./hand-back.ts";

const BEAT_MS = 1_000;
const DEAD_AFTER_MS = 3_500;
/** Span over which the rate of attempts is measured, in beats. */
const RATE_BEATS = 5;

export interface PresenceServices extends HandBackServices {
  /** This worker's id. */
  readonly worker: string;
  readonly dispatcher: Pick<Dispatcher, "shareWith">;
  readonly clock: Clock;
}

/** What a worker knows of the others. Presumed until the first beat. */
export class Presence {
  readonly #services: PresenceServices;
  readonly #beats: { readonly atMs: number; readonly attempts: number }[] = [];
  /** Whether no other worker lives. */
  alone = false;
  /** Whether this worker does what one of them has to do. */
  first = false;

  constructor(services: PresenceServices) {
    this.#services = services;
  }

  /** The job that beats, and hands back the claims of workers that no longer do. */
  get job(): UpkeepJob {
    return { name: "presence", everyMs: BEAT_MS, run: async () => await this.#beat() };
  }

  async #beat(): Promise<void> {
    const { worker, pool, dispatcher, clock } = this.#services;
    const now = clock.now();
    const { dead, ...workers } = await beatWorker(pool, {
      id: worker,
      now: new Date(now),
      deadBefore: new Date(now - DEAD_AFTER_MS),
      attemptsPerSecond: await this.#attemptRate(),
    });
    dispatcher.shareWith(workers);
    this.alone = workers.live === 1;
    this.first = workers.rank === 0;
    await handBackOfDead(this.#services, dead);
  }

  /** Measures this worker's attempts per second, once per beat. */
  async #attemptRate(): Promise<number> {
    const { values } = await metrics.attempts.get();
    const attempts = values.reduce((sum, { value }) => sum + value, 0);
    const last = { atMs: this.#services.clock.now(), attempts };
    this.#beats.push(last);
    const [first = last] = this.#beats.splice(0, Math.max(0, this.#beats.length - RATE_BEATS));
    const seconds = (last.atMs - first.atMs) / 1_000;
    return seconds > 0 ? (last.attempts - first.attempts) / seconds : 0;
  }
}
