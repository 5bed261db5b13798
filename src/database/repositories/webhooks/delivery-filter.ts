/** Selects the deliveries of a list, an export, a count or a replay. */
import type { AttemptError, DeadLetterReason, DeliveryState } from "../../../domain/delivery.ts";
import { ID_PREFIXES, idDay } from "../../../domain/ids.ts";
import { raw, sql, type Statement } from "../../sql.ts";
import type { Onward } from "../page.ts";

export interface DeliveryFilter {
  readonly endpointId?: string | undefined;
  readonly eventId?: string | undefined;
  readonly eventType?: string | undefined;
  readonly state?: DeliveryState | undefined;
  /** Earliest creation time, inclusive. */
  readonly from?: Date | undefined;
  /** Latest creation time, exclusive. */
  readonly to?: Date | undefined;
  /** Class of the last failure. */
  readonly lastError?: AttemptError | undefined;
  /** HTTP status of the last answer. */
  readonly lastStatus?: number | undefined;
  /** Why it is a dead letter. */
  readonly reason?: DeadLetterReason | undefined;
  /** Members that the endpoint's current metadata must have, as text. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

export interface DeliverySelection {
  readonly tenantId: string;
  readonly filter: DeliveryFilter;
  readonly now: Date;
  /** Position from which a newest-first list continues. */
  readonly onward?: Onward | undefined;
}

const COLUMNS = [
  ["endpointId", "endpoint_id"],
  ["eventType", "event_type"],
  ["lastError", "last_error"],
  ["lastStatus", "last_status"],
  ["reason", "reason"],
] as const;

/**
 * Returns ids between which the deliveries of an event are: their ids have the time of its id. So the primary key finds
 * them, among those of the same 8 ms.
 *
 * @returns the first id, inclusive, and the last one, exclusive
 */
export function deliveryIdsOf(eventId: string): readonly [from: string, to: string] {
  // Nine characters after the prefix hold 45 of the 48 bits of the time.
  const from = `${ID_PREFIXES.delivery}_${eventId.slice(ID_PREFIXES.event.length + 1).slice(0, 9)}`;
  return [from, `${from}~`];
}

/** All queued deliveries. Each half has its own index, which is small while deliveries flow. */
const QUEUED =
  "((d.state = 'QUEUED' AND d.carrier IS NULL) OR (d.state = 'QUEUED' AND d.carrier IS NOT NULL))";

/** Deliveries with an outcome, and those waiting for their first one. */
export const SETTLED_AND_QUEUED: readonly string[] = ["d.state <> 'QUEUED'", QUEUED];

function stateCondition(state: DeliveryState, now: Date): Statement {
  if (state === "DEAD_LETTERED") {
    return sql`d.state = 'DEAD_LETTERED' AND d.expires_at > ${now}`;
  }
  if (state === "EXPIRED") {
    return sql`(d.state = 'EXPIRED' OR (d.state = 'DEAD_LETTERED' AND d.expires_at <= ${now}))`;
  }
  return state === "QUEUED" ? raw(QUEUED) : sql`d.state = ${state}`;
}

/**
 * Returns the conditions on a delivery `d`. Absent filters add no condition, so that the planner can use its indexes.
 */
export function selectDeliveries({ tenantId, filter, now, onward }: DeliverySelection): Statement {
  const conditions = [sql`d.tenant_id = ${tenantId}`];
  if (onward !== undefined) {
    const { day, id } = onward;
    conditions.push(id === undefined ? sql`d.day < ${day}` : sql`d.day = ${day} AND d.id < ${id}`);
  }
  for (const [member, column] of COLUMNS) {
    const value = filter[member];
    if (value !== undefined) {
      conditions.push(sql`d.${raw(column)} = ${value}`);
    }
  }
  if (filter.metadata !== undefined) {
    conditions.push(sql`d.endpoint_id IN (SELECT e.id FROM endpoints e
      WHERE e.tenant_id = ${tenantId} AND metadata_matches(e.metadata, ${JSON.stringify(filter.metadata)}))`);
  }
  if (filter.eventId !== undefined) {
    const [from, to] = deliveryIdsOf(filter.eventId);
    conditions.push(
      sql`d.event_id = ${filter.eventId} AND d.day = ${idDay(filter.eventId)} AND d.id >= ${from} AND d.id < ${to}`,
    );
  }
  if (filter.state !== undefined) {
    conditions.push(stateCondition(filter.state, now));
  }
  if (filter.from !== undefined) {
    const day = filter.from.toISOString().slice(0, 10);
    conditions.push(sql`d.created_at >= ${filter.from} AND d.day >= ${day}`);
  }
  if (filter.to !== undefined) {
    const day = filter.to.toISOString().slice(0, 10);
    conditions.push(sql`d.created_at < ${filter.to} AND d.day <= ${day}`);
  }
  return conditions.reduce((all, condition) => sql`${all} AND ${condition}`);
}

/**
 * Returns the parts in which a list must be read, each by its own index; empty if one index covers it. The indexes by
 * endpoint and by event type contain deliveries only from their first outcome on (decision 0024). Those without one are
 * read separately.
 */
export function partsOf({ endpointId, eventType, eventId, state }: DeliveryFilter): readonly string[] {
  const split = state === undefined && eventId === undefined && (endpointId ?? eventType) !== undefined;
  return split ? SETTLED_AND_QUEUED : [];
}
