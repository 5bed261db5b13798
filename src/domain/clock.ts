/** A source of the current time, passed as an argument so that tests can set it. */
export interface Clock {
  /** Unix time in milliseconds. */
  now(): number;
}

/** The two clocks of a machine. */
export interface MachineClocks {
  /** Unix time in milliseconds. It may be wrong, and it may jump. */
  readonly wall: () => number;
  /** Milliseconds from an arbitrary start. It never goes back. */
  readonly monotonic: () => number;
}

/** A planned call of {@link Timers}. */
export interface Timer {
  /** Lets the process end before the call. */
  unref(): Timer;
}

/**
 * Timers, and the clocks that they run by. Passed as an argument, so that tests can simulate time. The machine's own are
 * `machineTimers` in src/runtime.
 */
export interface Timers extends MachineClocks {
  /** Calls once, with the argument, after so many milliseconds. */
  readonly after: <A = undefined>(ms: number, run: (argument: A) => void, argument?: A) => Timer;
  /** Calls again and again, with so many milliseconds between two calls. */
  readonly every: (ms: number, run: () => void) => Timer;
  /** Calls once in this turn of the event loop, after its sockets were read. It cannot be cancelled. */
  readonly soon: <A = undefined>(run: (argument: A) => void, argument?: A) => void;
  /** Prevents further calls of a timer. A timer that has ended, or none, is ignored. */
  readonly cancel: (timer: Timer | undefined) => void;
  /**
   * Resolves after so many milliseconds.
   *
   * @throws AbortError once the signal is aborted
   */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
}

/** The clock of another machine, known from what that machine says. */
export interface LearnedClock extends Clock {
  /** Whether the machine has said anything yet. Until then, there is no time. */
  readonly isKnown: boolean;
  /**
   * Takes the other machine's time. A message that was requested before the last one counts for nothing, so a late one
   * cannot move the clock back.
   *
   * @param theirs Unix time in milliseconds, which the other machine read after `askedAt`
   * @param askedAt when it was requested, by the monotonic clock
   * @returns whether it counts
   */
  learn(theirs: number, askedAt: number): boolean;
}

/** A clock that knows the skew of the machine's own clock (decision 25). */
export interface GuardedClock extends LearnedClock {
  /** How far the machine's clock is ahead of this one, in milliseconds; negative when it is behind. */
  readonly skewMs: number;
  /** False if the two clocks differ too much to know which one is right. */
  readonly isRight: boolean;
  /**
   * Must be called before each signature.
   *
   * @throws SignetError `CLOCK_SKEWED` while {@link isRight} is false
   */
  requireRight(): void;
  /** Compares the clocks again. @throws if the database does not answer */
  measure(): Promise<void>;
}

/** Wraps a clock without comparing it, for tests and for programs without a database. */
export function unguardedClock(clock: Clock): GuardedClock {
  return {
    now: () => clock.now(),
    isKnown: true,
    learn: () => true,
    skewMs: 0,
    isRight: true,
    requireRight: () => undefined,
    measure: async () => undefined,
  };
}
