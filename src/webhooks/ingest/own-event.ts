/** Publishes the service's own events to the endpoints of the tenant concerned. */
import type { Keyring } from "#crypto/keyring.ts";
import type { Queryable } from "#database/pool.ts";
import { findDataKeys } from "#database/repositories/data-keys.ts";
import { insertEvents } from "#database/repositories/webhooks/events.ts";
import {
  listFilters,
  matchEndpoints,
  type MatchingEndpoint,
} from "#database/repositories/webhooks/matches.ts";
import { actAs } from "#database/transaction.ts";
import type { Clock } from "#domain/clock.ts";
import { parseExactJson } from "#domain/decimal.ts";
import type { OwnEventType } from "#domain/own-event-types.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import { sealNewContents } from "./event-content.ts";
import { refusingEndpoints, shareFilters } from "./event-rules.ts";
import { IDEMPOTENCY_MS } from "#domain/idempotency.ts";

interface OwnEventContent {
  readonly tenantId: string;
  /** JSON text of an object. */
  readonly data: string;
  /** The endpoint that the event is about, which does not get it. */
  readonly except?: string;
  /** Whether to publish the event only if an endpoint takes it. */
  readonly onlyIfTaken?: boolean;
}

export type OwnEvent = OwnEventContent &
  (
    | { readonly type: OwnEventType; readonly to?: undefined; readonly madeBy?: undefined }
    | {
        readonly type: string;
        /** The only endpoint that gets the event, whatever types it takes. It must be ACTIVE. */
        readonly to: string;
        /** Author of `data`. The envelope tells receivers which events the service made itself. */
        readonly madeBy: "service" | "tenant";
      }
  );

export interface PublishedOwnEvent {
  readonly id: string;
  readonly deliveryIds: readonly string[];
}

export interface OwnEventServices {
  readonly keyring: Pick<Keyring, "contentRoot">;
  readonly clock: Clock;
  /** For ids and cryptographic keys. */
  readonly randomBytes: RandomBytes;
  readonly deadLetterMs: number;
}

/**
 * Returns the endpoints that take the event. A tenant's schema for its type applies only to the tenant's own events.
 */
async function takingEndpoints(
  db: Queryable,
  { tenantId, type, data }: Pick<OwnEvent, "tenantId" | "type" | "data">,
): Promise<readonly MatchingEndpoint[]> {
  const [match] = await matchEndpoints(db, [{ tenantId, type }]);
  const endpoints = match?.endpoints ?? [];
  if (match?.filters == null) {
    return endpoints;
  }
  const filters = shareFilters(await listFilters(db, { tenantId, type }));
  const refusing = new Set(refusingEndpoints(filters, { type, data: parseExactJson(data) }));
  return endpoints.filter((endpoint) => !refusing.has(endpoint.endpoint_id));
}

/**
 * Publishes an event in the caller's transaction, so that it is delivered exactly if that commits. Erased tenants get
 * none.
 *
 * @param db a transaction, of any role of the service
 */
export async function publishOwnEvent(
  db: Queryable,
  { tenantId, type, data, to, madeBy, except, onlyIfTaken }: OwnEvent,
  { keyring, clock, randomBytes, deadLetterMs }: OwnEventServices,
): Promise<PublishedOwnEvent> {
  const nowMs = clock.now();
  const now = new Date(nowMs);
  const times = {
    now,
    keysAfter: new Date(nowMs - IDEMPOTENCY_MS),
    signedKeysAfter: new Date(nowMs - IDEMPOTENCY_MS),
    expiresAt: new Date(nowMs + deadLetterMs),
  };
  return await actAs(db, "signet_ingest", async () => {
    const named = { id: newId("event", nowMs, randomBytes), tenantId, data };
    const wrapped = (await findDataKeys(db, [tenantId])).get(tenantId);
    if (wrapped === undefined) {
      return { id: named.id, deliveryIds: [] };
    }
    const matching =
      to === undefined
        ? (await takingEndpoints(db, { tenantId, type, data })).filter(
            (endpoint) => endpoint.endpoint_id !== except,
          )
        : [{ endpoint_id: to, state: "ACTIVE" }];
    if (onlyIfTaken === true && matching.length === 0) {
      return { id: named.id, deliveryIds: [] };
    }
    const root = await keyring.contentRoot(wrapped, tenantId);
    const [content] = sealNewContents([named], () => root, randomBytes);
    const event = {
      ...named,
      type,
      content: content as Buffer,
      sourceId: null,
      own: madeBy !== "tenant",
      occurredAt: now,
      keys: [],
      deliveries: matching.map(({ endpoint_id: endpointId, state }) => ({
        id: newId("delivery", nowMs, randomBytes),
        endpointId,
        state: state === "ACTIVE" ? ("QUEUED" as const) : ("DEAD_LETTERED" as const),
      })),
    };
    await insertEvents(db, [event], times);
    return { id: event.id, deliveryIds: event.deliveries.map(({ id }) => id) };
  });
}
