/** Workflow starts under way: bounded, timed, and paused while Temporal does not take them. */
import type { Logger } from "pino";

const IN_FLIGHT_MAX = 8;
const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 5_000;

export interface StartsOptions {
  readonly log: Logger;
  /** Called after each start that succeeded. */
  readonly onStarted: (tookMs: number, alone: boolean) => void;
}

export class Starts {
  readonly #options: StartsOptions;
  readonly #underWay = new Set<Promise<void>>();
  #members = 0;
  #pauseMs = 0;

  constructor(options: StartsOptions) {
    this.#options = options;
  }

  /** How long to claim nothing more; 0 while Temporal answers. */
  get pauseMs(): number {
    return this.#pauseMs;
  }

  /** Members of the carriers that are being started. */
  get membersUnderWay(): number {
    return this.#members;
  }

  /** Begins a start as soon as there is room for it. What fails stays claimed: the sweep starts it again. */
  async begin(carrier: string, members: number, start: () => Promise<void>): Promise<void> {
    while (this.#underWay.size >= IN_FLIGHT_MAX) {
      await Promise.race(this.#underWay);
    }
    const alone = this.#underWay.size === 0;
    this.#members += members;
    const underWay = this.#run(carrier, start, alone).finally(() => {
      this.#members -= members;
      this.#underWay.delete(underWay);
    });
    this.#underWay.add(underWay);
  }

  /** Resolves when none is under way. */
  async settle(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }

  async #run(carrier: string, start: () => Promise<void>, alone: boolean): Promise<void> {
    const began = performance.now();
    try {
      await start();
      this.#pauseMs = 0;
      this.#options.onStarted(performance.now() - began, alone);
    } catch (error) {
      // Claiming more meanwhile would only make the sweep's list longer.
      this.#pauseMs = Math.min(PAUSE_MAX_MS, Math.max(PAUSE_FIRST_MS, this.#pauseMs * 2));
      this.#options.log.warn(
        { err: error, carrier, pauseMs: this.#pauseMs },
        "workflow could not be started",
      );
    }
  }
}
