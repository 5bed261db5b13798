/** Test events: delivered like any other, but to one endpoint only. */
import type { Queryable } from "#database/pool.ts";
import type { Endpoint } from "#database/repositories/endpoints/endpoints.ts";
import { type Delivery, findDelivery } from "#database/repositories/webhooks/deliveries.ts";
import { isReservedType, type OwnEventType, RESERVED_TYPE_PROBLEM } from "#domain/own-event-types.ts";
import { validationFailed } from "#domain/errors.ts";
import { type OwnEventServices, publishOwnEvent } from "../ingest/own-event.ts";

const TEST_TYPE = "endpoint.test" satisfies OwnEventType;
const TEST_DATA = JSON.stringify({ message: "This is a test event." });

export interface TestEvent {
  /** By default `endpoint.test`. The endpoint need not subscribe to the type. */
  readonly type?: string | undefined;
  /** JSON text of an object. */
  readonly data?: string | undefined;
}

/**
 * Runs inside the tenant's transaction, which has locked the endpoint and checked that it is ACTIVE. The event names
 * the service as its source only with the default content.
 *
 * @throws SignetError VALIDATION_FAILED if the type is another type of the service
 */
export async function publishTestEvent(
  db: Queryable,
  { tenant_id: tenantId, id }: Pick<Endpoint, "tenant_id" | "id">,
  { type = TEST_TYPE, data = TEST_DATA }: TestEvent,
  sources: OwnEventServices,
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
