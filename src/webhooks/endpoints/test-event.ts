/** An event for trying out one endpoint: delivered as any other, and to nobody else. */
import type { Queryable } from "../../database/pool.ts";
import { type Delivery, findDelivery } from "../../database/repositories/webhooks/deliveries.ts";
import { isReservedType, type OwnEventType, RESERVED_TYPE_PROBLEM } from "../../domain/own-event-types.ts";
import { validationFailed } from "../../domain/errors.ts";
import { type OwnEventSources, publishOwnEvent } from "../ingest/own-event.ts";

const TEST_TYPE = "endpoint.test" satisfies OwnEventType;
const TEST_DATA = JSON.stringify({ message: "This is a test event." });

export interface TestEvent {
  /** `endpoint.test` unless given; the endpoint need not take it otherwise. */
  readonly type?: string | undefined;
  /** JSON text of an object. */
  readonly data?: string | undefined;
}

/**
 * Runs inside the tenant's transaction, which has locked the endpoint and seen that it is ACTIVE. The event says that the
 * service made it only when it did: with the content that it has by default.
 *
 * @throws SignetError VALIDATION_FAILED when the type is one of the service's others
 */
export async function publishTestEvent(
  db: Queryable,
  { tenantId, id }: { readonly tenantId: string; readonly id: string },
  { type = TEST_TYPE, data = TEST_DATA }: TestEvent,
  sources: OwnEventSources,
): Promise<Delivery | undefined> {
  if (type !== TEST_TYPE && isReservedType(type)) {
    throw validationFailed([{ pointer: "/type", ...RESERVED_TYPE_PROBLEM }]);
  }
  const written = type === TEST_TYPE && data === TEST_DATA;
  const event = { tenantId, type, data, to: id, madeBy: written ? "service" : "tenant" } as const;
  const { deliveryIds } = await publishOwnEvent(db, event, sources);
  const now = new Date(sources.clock.now());
  return await findDelivery(db, { tenantId, id: deliveryIds[0] ?? "", now });
}
