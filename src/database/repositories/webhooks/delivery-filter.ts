/** Selects the deliveries of a list, an export, a count or a replay. */
import type { AttemptError, DeadLetterReason, DeliveryState } from "#domain/delivery.ts";
import { ID_PREFIXES, idDay } from "#domain/ids.ts";
import { raw, sql, type Statement } from "#database/sql.ts";
import { type ListPart, withinDays } from "../page.ts";

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

/** All queued deliveries, in halves. Each has its own index, which is small while deliveries flow. */
const QUEUED_HALVES = [
  "d.state = 'QUEUED' AND d.carrier IS NULL",
  "d.state = 'QUEUED' AND d.carrier IS NOT NULL",
];
const QUEUED = `(${QUEUED_HALVES.map((half) => `(${half})`).join(" OR ")})`;

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

/** Conditions that find an event's deliveries by the primary key. */
function ofEvent(eventId: string): Statement {
  const [from, to] = deliveryIdsOf(eventId);
  return sql`d.day = ${idDay(eventId)} AND d.id >= ${from} AND d.id < ${to}`;
}

/**
 * Returns the conditions on a delivery `d`. Absent filters add no condition, so that the planner can use its indexes.
 */
export function selectDeliveries(selection: DeliverySelection): Statement {
  const { tenantId, filter, now } = selection;
  const conditions = [withinDays("d", tenantId, filter)];
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
    conditions.push(sql`d.event_id = ${filter.eventId} AND ${ofEvent(filter.eventId)}`);
  }
  if (filter.state !== undefined) {
    conditions.push(stateCondition(filter.state, now));
  }
  if (filter.from !== undefined) {
    conditions.push(sql`d.created_at >= ${filter.from}`);
  }
  if (filter.to !== undefined) {
    conditions.push(sql`d.created_at < ${filter.to}`);
  }
  return conditions.reduce((all, condition) => sql`${all} AND ${condition}`);
}

/** A condition that an index serves in the order of lists, and the filters that it covers. */
interface Served extends Pick<ListPart, "where" | "byId"> {
  readonly covers: readonly (keyof DeliveryFilter)[];
}

/** In the order of days, too, the planner could prefer the index of all of a tenant's deliveries, and read each. */
function queued(covers: Served["covers"]): readonly Served[] {
  return QUEUED_HALVES.map((half) => ({ where: raw(half), covers, byId: true }));
}

/**
 * Returns the rows of a state by their own index. Deliveries that are overdue in the queue are few, and their state
 * changes within seconds.
 */
function servedByState({ state, endpointId }: DeliveryFilter, now: Date): readonly Served[] | null {
  if (state === undefined || state === "DELIVERED") {
    return null;
  }
  if (state === "QUEUED") {
    return queued(["state"]);
  }
  if (state === "DEAD_LETTERED") {
    const of = endpointId === undefined ? sql`true` : sql`d.endpoint_id = ${endpointId}`;
    return [{ where: sql`d.state = 'DEAD_LETTERED' AND ${of}`, covers: ["endpointId"] }];
  }
  const overdue = sql`d.state = 'DEAD_LETTERED' AND d.expires_at <= ${now}`;
  return [
    { where: sql`d.state = ${state}`, covers: ["state"] },
    ...(state === "EXPIRED" ? [{ where: overdue, covers: ["state"] } as const] : []),
  ];
}

/**
 * Returns the rows of an endpoint or event type. Their indexes contain deliveries only from their first outcome on
 * (decision 24). Those without one are read separately.
 */
function servedByColumn({ endpointId, eventType, state }: DeliveryFilter): readonly Served[] {
  const waiting = state === undefined ? queued([]) : [];
  if (endpointId !== undefined) {
    const where = sql`d.endpoint_id = ${endpointId} AND d.state <> 'QUEUED'`;
    return [{ where, covers: ["endpointId"] }, ...waiting];
  }
  if (eventType !== undefined) {
    const where = sql`d.event_type = ${eventType} AND d.state <> 'QUEUED'`;
    return [{ where, covers: ["eventType"] }, ...waiting];
  }
  return [{ where: sql`true`, covers: [] }];
}

/**
 * Returns the dead letters among which those of the filter are, by the indexes in the order of death (migration 0080). It
 * names no state: then another index of dead letters would do, and PostgreSQL may prefer to sort all of its rows.
 */
export function deadLettersOf({ tenantId, filter }: DeliverySelection): Statement {
  const { endpointId, eventId } = filter;
  const ofEndpoint = endpointId === undefined ? sql`true` : sql`d.endpoint_id = ${endpointId}`;
  return sql`starts_with(d.state, 'DEAD_LETTERED') AND ${withinDays("d", tenantId, filter)} AND ${ofEndpoint}
    AND ${eventId === undefined ? sql`true` : ofEvent(eventId)}`;
}

/** Returns the parts in which a list must be read, each by its own index. */
export function partsOf(selection: DeliverySelection): readonly ListPart[] {
  const { tenantId, filter, now } = selection;
  const served =
    filter.eventId === undefined
      ? (servedByState(filter, now) ?? servedByColumn(filter))
      : [{ where: ofEvent(filter.eventId), covers: [] }];
  const given = Object.entries(filter).flatMap(([name, value]) =>
    value === undefined ? [] : [name as keyof DeliveryFilter],
  );
  return served.map(({ where, covers, byId = false }) => ({
    where: sql`${withinDays("d", tenantId, filter)} AND ${where}`,
    exact: given.every((name) => covers.includes(name)),
    byId,
  }));
}
