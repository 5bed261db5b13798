/** The worker's half of the hand-over at the insert (decision 42): which deliveries it takes, and what it then sends. */
import { SMALL_CONTENT_BYTES } from "#database/repositories/webhooks/attempts.ts";
import type { ClaimedFirst } from "#database/repositories/webhooks/claims.ts";
import type { Target } from "#database/repositories/webhooks/targets.ts";
import { metrics } from "#observability/metrics.ts";
import { tracer } from "#observability/tracing.ts";
import type { OfferedDelivery, TakenOffer } from "../ingest/hand-over.ts";
import type { FirstLists } from "./first-lists.ts";
import type { Targets } from "./targets.ts";

/** Why a delivery goes to the outbox, where a claim would have left it, too. */
export type OutboxReason =
  | "starting"
  | "ending"
  | "clock"
  | "unbatched"
  | "backlog"
  | "limit"
  | "rest"
  | "busy_tenant"
  | "slow_endpoint"
  | "unknown_target"
  | "changed_target";

export interface HandOverOptions {
  /** Id of this worker in claims. */
  readonly worker: string;
  readonly lists: Pick<FirstLists, "handOver">;
  readonly targets: Pick<Targets, "find" | "changed">;
  /** Called after deliveries were taken over. */
  readonly onTaken: () => void;
}

/** An offered delivery that this worker takes if the insert agrees. */
interface Taken extends OfferedDelivery {
  readonly target: Target;
  readonly carrier: string;
}

function countOutbox(reason: OutboxReason, count = 1): void {
  metrics.queued.inc({ to: "outbox", reason }, count);
}

/** Counts an offer of which none is taken. */
export function refuseAll(offered: readonly OfferedDelivery[], reason: OutboxReason): undefined {
  countOutbox(reason, offered.length);
}

/**
 * Takes the deliveries to known targets.
 *
 * @param leaves returns why a delivery has to wait in the outbox; undefined if it need not
 */
export function takeOffer(
  { worker, lists, targets, onTaken }: HandOverOptions,
  offered: readonly OfferedDelivery[],
  leaves: (delivery: OfferedDelivery) => OutboxReason | undefined,
): TakenOffer | undefined {
  const found = offered.flatMap((each) => {
    const left = leaves(each);
    const target = left === undefined ? targets.find(each.delivery.endpointId) : undefined;
    if (target === undefined) {
      countOutbox(left ?? "unknown_target");
      return [];
    }
    return [{ ...each, target }];
  });
  if (found.length === 0) {
    return undefined;
  }
  const handed = lists.handOver(found.map(({ delivery }) => delivery.id));
  const taken = found.map((each, index): Taken => ({ ...each, carrier: handed.carriers[index] as string }));
  return {
    worker,
    carriers: new Map(taken.map(({ delivery, carrier }) => [delivery.id, carrier])),
    versions: new Map(taken.map(({ target }) => [target.endpoint_id, target.version])),
    inserted: (result) => {
      const claimed = taken.filter(({ delivery }) => result.handed.has(delivery.id));
      const left = taken.filter(
        ({ event, delivery }) => result.inserted.has(event.id) && !result.handed.has(delivery.id),
      );
      countOutbox("changed_target", left.length);
      new Set(left.map(({ target }) => target.endpoint_id)).forEach((id) => targets.changed(id));
      metrics.queued.inc({ to: "sender", reason: "" }, claimed.length);
      handed.inserted(claimed.map((each) => claimedFirst(each, worker)));
      if (claimed.length > 0) {
        onTaken();
      }
    },
    failed: handed.failed,
  };
}

/** Returns a delivery as a claim would have read it. */
function claimedFirst({ event, delivery, target, carrier }: Taken, worker: string): ClaimedFirst {
  const { version: _version, ...columns } = target;
  const { tenantId, content } = event;
  const ids = { delivery_id: delivery.id, tenant_id: tenantId, endpoint_id: delivery.endpointId };
  return {
    ...ids,
    carrier,
    epoch: 1,
    loaded: {
      ...columns,
      ...ids,
      state: "QUEUED",
      cycle: 1,
      next_attempt_at: null,
      event_id: event.id,
      event_type: event.type,
      occurred_at: event.occurredAt,
      source_id: event.sourceId,
      own: event.own === true,
      data: null,
      content: content.length <= SMALL_CONTENT_BYTES ? content : null,
      content_bytes: content.length,
      claimed_by: worker,
      lease_until: null,
      duration_ms: null,
      error: null,
      status: null,
      traceparent: tracer() === undefined ? undefined : (event.traceparent ?? null),
    },
  };
}
