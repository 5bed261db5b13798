/** A reserved instant in the rate-limit queue of an endpoint. */
export interface Reservation {
  /** When the attempt may start, Unix milliseconds. */
  readonly atMs: number;
  /** Rate limit that the reservation was made under, in attempts per second. A new limit starts a new queue. */
  readonly rateLimit: number;
}
