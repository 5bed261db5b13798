/**
 * Workflow starts under way: bounded, timed, tried again while Temporal is away. A start that was given up stays claimed
 * and waits for the sweep, so only what no second try can help is given up soon.
 */
import type { Logger } from "pino";
import { Sleeper } from "../../runtime/sleeper.ts";
import { NoAnswerError, within } from "../../runtime/within.ts";

const IN_FLIGHT_MAX = 8;
const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 1_000;
/**
 * The client tries again by itself for 10 s with ever longer pauses, which would go on when Temporal is back. A start may
 * be asked for any number of times: the first one counts.
 */
const TRY_MS = 2_000;
/** Longer than Temporal takes to come back; a start that nobody ever takes must not hold its place for ever. */
const GIVE_UP_MS = 60_000;

/** gRPC: INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED, UNAUTHENTICATED. */
const HOPELESS: ReadonlySet<number> = new Set([3, 5, 7, 9, 11, 12, 16]);

export interface StartsOptions {
  readonly log: Logger;
  /** Called after each start that succeeded. */
  readonly onStarted: (tookMs: number, alone: boolean) => void;
}

export class Starts {
  readonly #options: StartsOptions;
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #sleeper = new Sleeper();
  #members = 0;
  #pauseMs = 0;
  #pausedUntil = 0;

  constructor(options: StartsOptions) {
    this.#options = options;
  }

  /**
   * How long to claim nothing more; 0 while Temporal answers. Ends by itself: the start that caused it may have been given
   * up, and no other one follows while nothing is claimed.
   */
  get pauseMs(): number {
    return performance.now() < this.#pausedUntil ? this.#pauseMs : 0;
  }

  /** Members of the carriers that are being started. */
  get membersUnderWay(): number {
    return this.#members;
  }

  /** Begins a start as soon as there is room for it, unless that carrier is being started. */
  async begin(carrier: string, members: number, start: () => Promise<void>): Promise<void> {
    while (this.#underWay.size >= IN_FLIGHT_MAX && !this.#underWay.has(carrier)) {
      await Promise.race(this.#underWay.values());
    }
    if (this.#underWay.has(carrier)) {
      return;
    }
    const alone = this.#underWay.size === 0;
    this.#members += members;
    const underWay = this.#run(carrier, start, alone).finally(() => {
      this.#members -= members;
      this.#underWay.delete(carrier);
    });
    this.#underWay.set(carrier, underWay);
  }

  /** Tries nothing again, and resolves when none is under way. What is left is the next worker's. */
  async settle(): Promise<void> {
    this.#sleeper.stop();
    await Promise.allSettled(this.#underWay.values());
  }

  async #run(carrier: string, start: () => Promise<void>, alone: boolean): Promise<void> {
    const { log, onStarted } = this.#options;
    const began = performance.now();
    for (let pauseMs = PAUSE_FIRST_MS; ; pauseMs = Math.min(PAUSE_MAX_MS, pauseMs * 2)) {
      try {
        const triedAt = performance.now();
        await within(TRY_MS, start());
        this.#pauseMs = 0;
        onStarted(performance.now() - triedAt, alone);
        return;
      } catch (error) {
        // Claiming more meanwhile would only make the sweep's list longer.
        this.#pauseMs = pauseMs;
        this.#pausedUntil = performance.now() + pauseMs + TRY_MS;
        log.warn({ err: error, carrier, pause_ms: pauseMs }, "workflow could not be started");
        await this.#sleeper.sleep(pauseMs);
        if (this.#sleeper.stopped || isHopeless(error) || performance.now() - began > GIVE_UP_MS) {
          return;
        }
      }
    }
  }
}

/** What the server, or the way to it, refused; the client's errors have that as their cause. */
function isHopeless(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? error) as { readonly code?: unknown };
  return typeof code === "number" ? HOPELESS.has(code) : !(error instanceof NoAnswerError);
}
