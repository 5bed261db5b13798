/** Deliveries in numbers, by the hour of their acceptance. Nothing is kept for them: a bounded part of each hour is looked at. */
import { newId } from "../../../domain/ids.ts";
import type { Queryable } from "../../pool.ts";
import { SETTLED_AND_QUEUED } from "./delivery-filter.ts";

/** Deliveries of an hour that are looked at, newest first. */
const HOUR_SAMPLE = 1_000;
const HOUR_MS = 3_600_000;

export interface HourOfDeliveries {
  readonly hour: Date;
  /** Those looked at: all of the hour's, where it is complete. */
  readonly total: number;
  readonly delivered: number;
  /** In the queue of dead letters, or expired there. */
  readonly deadLettered: number;
  /** From acceptance to the acknowledgement, milliseconds; null where nothing was delivered. */
  readonly latencyP50Ms: number | null;
  readonly latencyP95Ms: number | null;
  /** False where the hour has more deliveries than were looked at. */
  readonly complete: boolean;
}

/** Whose deliveries are counted. */
export interface CountedDeliveries {
  readonly tenantId: string;
  /** All of the tenant's without one. */
  readonly endpointId?: string | undefined;
}

interface HourRow {
  readonly total: number;
  readonly delivered: number;
  readonly dead: number;
  readonly p50: number | null;
  readonly p95: number | null;
}

/** The smallest id of its moment. */
function idFrom(ms: number): string {
  return newId("delivery", ms, (size) => new Uint8Array(size));
}

/** The newest of an hour, at most one more than are looked at. */
function newestOf(condition: string): string {
  return `SELECT d.id, d.state, d.created_at, d.delivered_at FROM deliveries d
    WHERE d.tenant_id = $1 AND d.day = h.day AND d.id >= h.low COLLATE "C" AND d.id < h.high COLLATE "C" AND ${condition}
    ORDER BY d.id DESC LIMIT $5`;
}

const NEWEST_OF_TENANT = newestOf("true");
const NEWEST_OF_ENDPOINT = `SELECT * FROM (${SETTLED_AND_QUEUED.map(
  (part) => `(${newestOf(`d.endpoint_id = $6 AND ${part}`)})`,
).join(" UNION ALL ")}) d ORDER BY d.id DESC LIMIT $5`;

/**
 * Reads hours, each by the index over the tenant's or the endpoint's ids, which hold the time: an hour costs 1,001 rows at
 * most.
 */
export async function readDeliveryHours(
  db: Queryable,
  { tenantId, endpointId }: CountedDeliveries,
  hours: readonly Date[],
): Promise<HourOfDeliveries[]> {
  const { rows } = await db.query<HourRow>({
    name: endpointId === undefined ? "read-delivery-hours" : "read-delivery-hours-of-endpoint",
    text: `SELECT s.total, s.delivered, s.dead, s.p50, s.p95
      FROM unnest($2::date[], $3::text[], $4::text[]) WITH ORDINALITY AS h(day, low, high, ord)
      CROSS JOIN LATERAL (
        SELECT count(*)::int AS total,
          count(*) FILTER (WHERE n.state = 'DELIVERED')::int AS delivered,
          count(*) FILTER (WHERE n.state IN ('DEAD_LETTERED', 'EXPIRED'))::int AS dead,
          percentile_disc(0.5) WITHIN GROUP (ORDER BY n.latency) AS p50,
          percentile_disc(0.95) WITHIN GROUP (ORDER BY n.latency) AS p95
        FROM (
          SELECT d.state,
            CASE WHEN d.delivered_at IS NOT NULL THEN
              greatest(0, round(extract(epoch FROM d.delivered_at - d.created_at) * 1000))::float8 END AS latency
          FROM (${endpointId === undefined ? NEWEST_OF_TENANT : NEWEST_OF_ENDPOINT}) d
        ) n
      ) s ORDER BY h.ord`,
    values: [
      tenantId,
      hours.map((hour) => hour.toISOString().slice(0, 10)),
      hours.map((hour) => idFrom(hour.getTime())),
      hours.map((hour) => idFrom(hour.getTime() + HOUR_MS)),
      HOUR_SAMPLE + 1,
      ...(endpointId === undefined ? [] : [endpointId]),
    ],
  });
  return rows.map(({ total, delivered, dead, p50, p95 }, index) => ({
    hour: hours[index] ?? new Date(0),
    total: Math.min(total, HOUR_SAMPLE),
    delivered: Math.min(delivered, HOUR_SAMPLE),
    deadLettered: Math.min(dead, HOUR_SAMPLE),
    latencyP50Ms: p50,
    latencyP95Ms: p95,
    complete: total <= HOUR_SAMPLE,
  }));
}
