/** Time as an argument: everything that asks for the time takes a clock, so that tests can set it. */
export interface Clock {
  /** Unix time in milliseconds. */
  now(): number;
}

/** The machine's own clock, which may be wrong: for programs that share no instants with others. */
export const systemClock: Clock = { now: () => Date.now() };

/** A clock that knows how far the machine's own clock is from it (decision 0025). */
export interface GuardedClock extends Clock {
  /** How far the machine's clock is ahead of this one, in milliseconds; negative when it is behind. */
  readonly skewMs: number;
  /** False while the two clocks are too far apart to say which one is right. */
  readonly isRight: boolean;
  /**
   * Call before a signature.
   *
   * @throws SignetError `CLOCK_SKEWED` while {@link isRight} is false
   */
  requireRight(): void;
  /** Compares the clocks again. @throws when the database does not answer */
  measure(): Promise<void>;
}

/** A clock that nothing is compared with: of tests and of programs without a database. */
export function unguardedClock(clock: Clock): GuardedClock {
  return {
    now: () => clock.now(),
    skewMs: 0,
    isRight: true,
    requireRight: () => undefined,
    measure: async () => undefined,
  };
}
