/** How an endpoint of the sink answers. Pings are always acknowledged. */
export type Behaviour =
  | { readonly kind: "ok" }
  /** 500 to the first `attempts` of each event, then 200. */
  | { readonly kind: "fail"; readonly attempts: number }
  /** 500 to so many of a hundred requests, of the first `attempts` of each event; which ones, the event's index says. */
  | { readonly kind: "flaky"; readonly percent: number; readonly attempts: number }
  /**
   * 200, but only after so long: longer than the sender waits, it hangs. Only the first `attempts` of each event where
   * that is given, the others at once.
   */
  | { readonly kind: "delay"; readonly ms: number; readonly attempts?: number }
  /** No answer to the first `attempts` of each event, then 200. */
  | { readonly kind: "hang"; readonly attempts: number }
  /** The connection is reset at the first `attempts` of each event, then 200. */
  | { readonly kind: "reset"; readonly attempts: number };

export interface BehaviourChange {
  readonly endpoints: readonly number[];
  readonly behaviour: Behaviour;
}
