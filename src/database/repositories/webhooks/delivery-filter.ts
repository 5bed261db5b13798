/** Selects the deliveries of a list, an export, a count or a replay. */
import type { AttemptError, DeadLetterReason, DeliveryState } from "../../../domain/delivery.ts";
import { idDay } from "../../../domain/ids.ts";
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

/** Conditions on a delivery `d`, or a query, with the values of its placeholders: $1 is the tenant, $2 the time. */
export interface SelectedDeliveries {
  readonly text: string;
  readonly values: readonly unknown[];
}

const COLUMNS = [
  ["endpointId", "endpoint_id"],
  ["eventType", "event_type"],
  ["lastError", "last_error"],
  ["lastStatus", "last_status"],
  ["reason", "reason"],
] as const;

/** All queued deliveries. Each half has its own index, which is small while deliveries flow. */
const QUEUED =
  "((d.state = 'QUEUED' AND d.carrier IS NULL) OR (d.state = 'QUEUED' AND d.carrier IS NOT NULL))";

/** Deliveries with an outcome, and those waiting for their first one. */
export const SETTLED_AND_QUEUED: readonly string[] = ["d.state <> 'QUEUED'", QUEUED];

function stateCondition(state: DeliveryState, placeholder: (value: unknown) => string): string {
  if (state === "DEAD_LETTERED") {
    return "d.state = 'DEAD_LETTERED' AND d.expires_at > $2";
  }
  if (state === "EXPIRED") {
    return "(d.state = 'EXPIRED' OR (d.state = 'DEAD_LETTERED' AND d.expires_at <= $2))";
  }
  if (state === "QUEUED") {
    return QUEUED;
  }
  return `d.state = ${placeholder(state)}`;
}

/**
 * Collects the conditions and their values. Absent filters add no condition, so that the planner can use its indexes.
 */
export function selectDeliveries({ tenantId, filter, now, onward }: DeliverySelection): SelectedDeliveries {
  const values: unknown[] = [tenantId, now];
  const placeholder = (value: unknown): string => `$${values.push(value)}`;
  // Names $2 in any case, because PostgreSQL must know the type of every value.
  const conditions = ["d.tenant_id = $1", "$2::timestamptz IS NOT NULL"];
  if (onward !== undefined) {
    const day = placeholder(onward.day);
    conditions.push(
      onward.id === undefined ? `d.day < ${day}` : `d.day = ${day} AND d.id < ${placeholder(onward.id)}`,
    );
  }
  for (const [member, column] of COLUMNS) {
    const value = filter[member];
    if (value !== undefined) {
      conditions.push(`d.${column} = ${placeholder(value)}`);
    }
  }
  if (filter.metadata !== undefined) {
    conditions.push(`d.endpoint_id IN (SELECT e.id FROM endpoints e
      WHERE e.tenant_id = $1 AND metadata_matches(e.metadata, ${placeholder(JSON.stringify(filter.metadata))}))`);
  }
  if (filter.eventId !== undefined) {
    // A delivery has the day of its event.
    conditions.push(
      `d.event_id = ${placeholder(filter.eventId)} AND d.day = ${placeholder(idDay(filter.eventId))}`,
    );
  }
  if (filter.state !== undefined) {
    conditions.push(stateCondition(filter.state, placeholder));
  }
  if (filter.from !== undefined) {
    const day = filter.from.toISOString().slice(0, 10);
    conditions.push(`d.created_at >= ${placeholder(filter.from)} AND d.day >= ${placeholder(day)}`);
  }
  if (filter.to !== undefined) {
    const day = filter.to.toISOString().slice(0, 10);
    conditions.push(`d.created_at < ${placeholder(filter.to)} AND d.day <= ${placeholder(day)}`);
  }
  return { text: conditions.join(" AND "), values };
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
