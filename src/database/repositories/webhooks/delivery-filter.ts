/** Which deliveries a list, an export, a count or a replay speaks of. */
import type { AttemptError, DeadLetterReason, DeliveryState } from "../../../domain/delivery.ts";
import { idDay } from "../../../domain/ids.ts";
import type { Onward } from "../page.ts";

export interface DeliveryFilter {
  readonly endpointId?: string | undefined;
  readonly eventId?: string | undefined;
  readonly eventType?: string | undefined;
  readonly state?: DeliveryState | undefined;
  /** Created at or after. */
  readonly from?: Date | undefined;
  /** Created before. */
  readonly to?: Date | undefined;
  /** Class of the last failure. */
  readonly lastError?: AttemptError | undefined;
  /** HTTP status of the last answer. */
  readonly lastStatus?: number | undefined;
  /** Why it is a dead letter. */
  readonly reason?: DeadLetterReason | undefined;
  /** Members that the endpoint's metadata have now, as text. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

export interface DeliverySelection {
  readonly tenantId: string;
  readonly filter: DeliveryFilter;
  readonly now: Date;
  /** Where a list that is newest first goes on. */
  readonly onward?: Onward | undefined;
}

/** Conditions on a delivery `d`, or a query, with the values of its placeholders. $1 is the tenant, $2 the time. */
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

/** Each half has an index of its own, small while deliveries flow; together they are every queued one. */
const QUEUED =
  "((d.state = 'QUEUED' AND d.carrier IS NULL) OR (d.state = 'QUEUED' AND d.carrier IS NOT NULL))";

/** What has had an outcome, and what waits for its first. */
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

/** Collects conditions with their values: filters come and go, and an absent one must not cost the planner its index. */
export function selectDeliveries({ tenantId, filter, now, onward }: DeliverySelection): SelectedDeliveries {
  const values: unknown[] = [tenantId, now];
  const placeholder = (value: unknown): string => `$${values.push(value)}`;
  // The time is named in any case: PostgreSQL wants to know the type of every value that it gets.
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
    // A delivery lies on the day of its event.
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
 * The parts that a list must be read in, each by its index; empty where one index has all of it. Those by endpoint and by
 * event type have deliveries from their first outcome on (decision 0024): the ones that wait for it are looked for beside
 * them.
 */
export function partsOf({ endpointId, eventType, eventId, state }: DeliveryFilter): readonly string[] {
  const split = state === undefined && eventId === undefined && (endpointId ?? eventType) !== undefined;
  return split ? SETTLED_AND_QUEUED : [];
}
