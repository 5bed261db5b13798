/** An event for trying out one endpoint: delivered as any other, and to nobody else. */
import type { Queryable } from "../database/pool.ts";
import { type Delivery, findDelivery } from "../database/repositories/deliveries.ts";
import { type OwnEventSources, publishOwnEvent } from "../delivery/own-event.ts";

const TEST_TYPE = "endpoint.test";
const TEST_DATA = JSON.stringify({ message: "This is a test event." });

export interface TestEvent {
  /** `endpoint.test` unless given; the endpoint need not take it otherwise. */
  readonly type?: string | undefined;
  /** JSON text of an object. */
  readonly data?: string | undefined;
}

/** Runs inside the tenant's transaction, which has locked the endpoint and seen that it is ACTIVE. */
export async function publishTestEvent(
  db: Queryable,
  { tenantId, id }: { readonly tenantId: string; readonly id: string },
  { type = TEST_TYPE, data = TEST_DATA }: TestEvent,
  sources: OwnEventSources,
): Promise<Delivery | undefined> {
  const { deliveryIds } = await publishOwnEvent(db, { tenantId, type, data, to: id }, sources);
  const now = new Date(sources.clock.now());
  return await findDelivery(db, { tenantId, id: deliveryIds[0] ?? "", now });
}
