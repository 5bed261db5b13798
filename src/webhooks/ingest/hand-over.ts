/**
 * Hand-over at the insert (decision 42): if a worker runs in the same process, the insert of events writes the claim of
 * their deliveries, and the first attempts leave once it has been committed. No claim reads them again.
 */
import type { InsertResult, NewDelivery, NewEvent } from "#database/repositories/webhooks/events.ts";
import type { HandedDeliveries } from "#database/repositories/webhooks/handed-deliveries.ts";

/** A delivery that is about to be inserted, and its event. */
export interface OfferedDelivery {
  readonly event: NewEvent;
  readonly delivery: NewDelivery;
}

/** Waits for an insert. One of the two functions must be called once, after it. */
export interface AwaitedInsert<Inserted> {
  /** Sends what the insert has written with its carrier. */
  readonly inserted: (inserted: Inserted) => void;
  /** The insert failed, or its answer was lost: what it may have written is found by a sweep. */
  readonly failed: () => void;
}

/** The answer to an offer. */
export interface TakenOffer extends HandedDeliveries, AwaitedInsert<InsertResult> {}

/** Takes deliveries over that are about to be inserted. Those without a carrier wait in the outbox. */
export interface HandOver {
  /** @returns undefined if it takes none of them */
  offer(deliveries: readonly OfferedDelivery[]): TakenOffer | undefined;
}

/** Passes offers to the worker of this process while there is one. */
export class HandOverTo implements HandOver {
  #worker: HandOver | undefined;

  offer(deliveries: readonly OfferedDelivery[]): TakenOffer | undefined {
    return deliveries.length === 0 ? undefined : this.#worker?.offer(deliveries);
  }

  /** Begins to pass offers to a worker. @returns ends it, before the worker stops */
  begin(worker: HandOver): () => void {
    this.#worker = worker;
    return () => {
      this.#worker = undefined;
    };
  }
}
