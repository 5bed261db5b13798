/** Time as an argument: everything that asks for the time takes a clock, so that tests can set it. */
export interface Clock {
  /** Unix time in milliseconds. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };
