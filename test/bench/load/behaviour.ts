/** How an endpoint of the sink answers. Pings are always acknowledged. */
export type Behaviour =
  | { readonly kind: "ok" }
  /** 500 to the first `attempts` of each event, then 200. */
  | { readonly kind: "fail"; readonly attempts: number }
  /** 200, but only after so long: longer than the sender waits, it hangs. */
  | { readonly kind: "delay"; readonly ms: number };

export interface BehaviourChange {
  readonly endpoints: readonly number[];
  readonly behaviour: Behaviour;
}
