/** A delivery and a dead letter as the API returns them. */

export type DeliveryState = "QUEUED" | "RETRYING" | "DELIVERED" | "DEAD_LETTERED" | "EXPIRED" | "CANCELLED";

/** Why an attempt failed; `refused` is the service's own address policy. */
export type AttemptError =
  | "status"
  | "timeout"
  | "connect"
  | "tls"
  | "dns"
  | "refused"
  | "aborted"
  | "authentication";

/** One event on its way to one endpoint. */
export interface Delivery {
  readonly id: string;
  readonly event_id: string;
  readonly event_type: string;
  readonly endpoint_id: string;
  readonly state: DeliveryState;
  /** Counts replays: 1 is the first. */
  readonly cycle: number;
  /** Attempts that have ended in this cycle, of 17. */
  readonly attempt_count: number;
  readonly next_attempt_at: string | null;
  readonly last_status: number | null;
  readonly last_error: AttemptError | null;
  /** Its carrier, a Temporal workflow. */
  readonly workflow_id: string | null;
  readonly created_at: string;
  readonly delivered_at: string | null;
  readonly dead_lettered_at: string | null;
  readonly expires_at: string | null;
}

export interface DeadLetter extends Delivery {
  readonly reason: "attempts_exhausted" | "endpoint_disabled" | null;
  /** The undelivered event. */
  readonly event: object | null;
}
