/** A source of the current time, passed as an argument so that tests can set it. */
export interface Clock {
  /** Unix time in milliseconds. */
  now(): number;
}

/** The machine's own clock, which may be wrong. For programs that share no instants with others. */
export const systemClock: Clock = { now: () => Date.now() };

/** A monotonic clock, in milliseconds from an arbitrary start. */
export const monotonic = (): number => performance.now();

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
