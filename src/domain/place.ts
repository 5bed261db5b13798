/** A place in the line of an endpoint with a rate limit. */
export interface Place {
  /** When the attempt may start, Unix milliseconds. */
  readonly atMs: number;
  /** The limit that it was given out by, attempts per second: another limit begins a new line. */
  readonly rateLimit: number;
}
