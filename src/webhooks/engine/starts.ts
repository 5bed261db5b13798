/**
 * Workflow starts in progress: bounded, timed, and retried while Temporal is unavailable. An abandoned start stays
 * claimed until the sweep, so only starts that no retry can help are abandoned early.
 */
import type { Logger } from "pino";
import type { Timers } from "#domain/clock.ts";
import { Sleeper } from "#runtime/sleeper.ts";
import { NoAnswerError, within } from "#runtime/within.ts";

const IN_FLIGHT_MAX = 8;
const PAUSE_FIRST_MS = 100;
const PAUSE_MAX_MS = 1_000;
/** No further deliveries are claimed if Temporal takes longer. */
const TRY_MS = 2_000;
/**
 * For how long a call without an answer counts as under way, unless its connection is replaced. The client itself repeats
 * it for as long. Repeated starts are safe, because the first one counts, but they add to what keeps Temporal busy.
 */
const CALL_MS = 10_000;
/** Longer than Temporal takes to recover. A start that never succeeds must not hold its slot forever. */
const GIVE_UP_MS = 60_000;
/** Time after which no start is in progress any more, in milliseconds. */
export const START_ENDS_MS = GIVE_UP_MS + 2 * TRY_MS;

/** gRPC: INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED, UNAUTHENTICATED. */
const PERMANENT: ReadonlySet<number> = new Set([3, 5, 7, 9, 11, 12, 16]);

export class Starts {
  readonly #timers: Timers;
  readonly #log: Logger;
  readonly #underWay = new Map<string, Promise<boolean>>();
  readonly #sleeper: Sleeper;
  #pauseMs = 0;
  #pausedUntil = 0;
  /** Number of the connection. A call over an earlier one gets no answer. */
  #connection = 0;

  constructor(timers: Timers, log: Logger) {
    this.#timers = timers;
    this.#sleeper = new Sleeper(timers);
    this.#log = log;
  }

  /**
   * How long to pause claims, in milliseconds; 0 while Temporal responds. The pause ends by itself: its start may
   * have been abandoned, and without claims no other one follows.
   */
  get pauseMs(): number {
    return this.#timers.monotonic() < this.#pausedUntil ? this.#pauseMs : 0;
  }

  /**
   * Begins a start once a slot is free, unless that carrier is already being started.
   *
   * @param slots how many starts may be in progress with it: less for what is not urgent
   * @returns whether this call will have started the carrier; false if it gives up
   */
  async begin(
    carrier: string,
    start: () => Promise<unknown>,
    slots = IN_FLIGHT_MAX,
  ): Promise<{ readonly started: Promise<boolean> }> {
    while (this.#underWay.size >= slots && !this.#underWay.has(carrier)) {
      await Promise.race(this.#underWay.values());
    }
    const unavailable = this.#sleeper.stopped && this.pauseMs > 0;
    if (unavailable || this.#underWay.has(carrier)) {
      return { started: Promise.resolve(false) };
    }
    const started = this.#run(carrier, start).finally(() => {
      this.#underWay.delete(carrier);
    });
    this.#underWay.set(carrier, started);
    return { started };
  }

  /** Lets the calls under way be repeated: their connection was silent and has been replaced. */
  reconnected(): void {
    this.#connection += 1;
    this.#pausedUntil = 0;
    this.#sleeper.wake();
  }

  /** Stops retrying. Others start what this worker does not. */
  stop(): void {
    this.#sleeper.stop();
  }

  /** Resolves when no start is in progress. */
  async settle(): Promise<void> {
    await Promise.allSettled(this.#underWay.values());
  }

  #isUnderWay(call: Call | undefined): boolean {
    return call?.connection === this.#connection && this.#timers.monotonic() - call.atMs < CALL_MS;
  }

  async #run(carrier: string, start: () => Promise<unknown>): Promise<boolean> {
    const began = this.#timers.monotonic();
    let call: Call | undefined;
    for (let pauseMs = PAUSE_FIRST_MS; ; pauseMs = Math.min(PAUSE_MAX_MS, pauseMs * 2)) {
      try {
        call ??= { answer: start(), atMs: this.#timers.monotonic(), connection: this.#connection };
        await within(this.#timers, TRY_MS, call.answer);
        this.#pauseMs = 0;
        return true;
      } catch (error) {
        call = error instanceof NoAnswerError && this.#isUnderWay(call) ? call : undefined;
        // More claims would only lengthen the sweep's list.
        this.#pauseMs = pauseMs;
        this.#pausedUntil = this.#timers.monotonic() + pauseMs + TRY_MS;
        this.#log.warn({ err: error, carrier, pause_ms: pauseMs }, "workflow could not be started");
        await this.#sleeper.sleep(pauseMs);
        if (this.#sleeper.stopped || isPermanent(error) || this.#timers.monotonic() - began > GIVE_UP_MS) {
          return false;
        }
      }
    }
  }
}

/** A call that may still be answered. */
interface Call {
  readonly answer: Promise<unknown>;
  readonly atMs: number;
  readonly connection: number;
}

/**
 * Whether the server, or the way to it, refused permanently. The client's errors carry the gRPC error as their cause.
 */
function isPermanent(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? error) as { readonly code?: unknown };
  return typeof code === "number" ? PERMANENT.has(code) : !(error instanceof NoAnswerError);
}
