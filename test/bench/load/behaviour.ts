/** How an endpoint of the sink answers. It always acknowledges pings. */
export type Behaviour =
  | { readonly kind: "ok" }
  /** Answers 500 to the first `attempts` requests of each event, then 200. */
  | { readonly kind: "fail"; readonly attempts: number }
  /** Answers 500 to `percent` of the first `attempts` requests of each event. The event's index decides which. */
  | { readonly kind: "flaky"; readonly percent: number; readonly attempts: number }
  /**
   * Answers 200 after `ms`, at most for the first `attempts` requests of each event if given. A delay beyond the
   * sender's timeout is a hang.
   */
  | { readonly kind: "delay"; readonly ms: number; readonly attempts?: number }
  /** Does not answer the first `attempts` requests of each event, then answers 200. */
  | { readonly kind: "hang"; readonly attempts: number }
  /** Resets the connection at the first `attempts` requests of each event, then answers 200. */
  | { readonly kind: "reset"; readonly attempts: number };

export interface BehaviourChange {
  readonly endpoints: readonly number[];
  readonly behaviour: Behaviour;
}
