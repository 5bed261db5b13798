/** Events of the service itself, to the endpoints of the tenant that they concern. */
import type { Queryable } from "../database/pool.ts";
import { insertEvents, matchEndpoints } from "../database/repositories/events.ts";
import { actAs } from "../database/transaction.ts";
import type { Clock } from "../domain/clock.ts";
import { newId, type RandomBytes } from "../domain/ids.ts";
import { IDEMPOTENCY_MS } from "./ingest.ts";

export interface OwnEvent {
  readonly tenantId: string;
  readonly type: string;
  /** JSON text of an object. */
  readonly data: string;
  /** The one endpoint that gets it, whatever it takes; it is ACTIVE. */
  readonly to?: string;
  /** An endpoint that does not get it: the one that it tells of. */
  readonly except?: string;
}

export interface PublishedOwnEvent {
  readonly id: string;
  readonly deliveryIds: readonly string[];
}

export interface OwnEventSources {
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly deadLetterMs: number;
}

/**
 * Publishes an event in the caller's transaction: it is delivered exactly when that commits.
 *
 * @param db a transaction, of any role of the service
 */
export async function publishOwnEvent(
  db: Queryable,
  { tenantId, type, data, to, except }: OwnEvent,
  { clock, randomBytes, deadLetterMs }: OwnEventSources,
): Promise<PublishedOwnEvent> {
  const nowMs = clock.now();
  const now = new Date(nowMs);
  const times = {
    now,
    keysAfter: new Date(nowMs - IDEMPOTENCY_MS),
    expiresAt: new Date(nowMs + deadLetterMs),
  };
  return await actAs(db, "signet_ingest", async () => {
    const matching =
      to === undefined
        ? (await matchEndpoints(db, [{ tenantId, type }])).filter(({ endpointId }) => endpointId !== except)
        : [{ endpointId: to, state: "ACTIVE" }];
    const event = {
      id: newId("event", nowMs, randomBytes),
      tenantId,
      type,
      data,
      sourceId: null,
      occurredAt: now,
      idempotency: null,
      deliveries: matching.map(({ endpointId, state }) => ({
        id: newId("delivery", nowMs, randomBytes),
        endpointId,
        state: state === "ACTIVE" ? ("QUEUED" as const) : ("DEAD_LETTERED" as const),
      })),
    };
    await insertEvents(db, [event], times);
    return { id: event.id, deliveryIds: event.deliveries.map(({ id }) => id) };
  });
}
