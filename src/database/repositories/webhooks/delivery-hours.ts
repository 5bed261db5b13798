/**
 * Counts deliveries by the hour of their acceptance. Nothing is stored for this: each hour is sampled up to a limit.
 */
import { newId } from "../../../domain/ids.ts";
import type { Queryable } from "../../pool.ts";
import { SETTLED_AND_QUEUED } from "./delivery-filter.ts";

/** Maximum number of deliveries sampled per hour, newest first. */
const HOUR_SAMPLE = 1_000;
const HOUR_MS = 3_600_000;

export interface HourOfDeliveries {
  readonly hour: Date;
  /** Number of sampled deliveries; all of the hour's if it is complete. */
  readonly total: number;
  readonly delivered: number;
  /** Dead letters, including expired ones. */
  readonly deadLettered: number;
  /** Time from acceptance to acknowledgement, in milliseconds; null if nothing was delivered. */
  readonly latencyP50Ms: number | null;
  readonly latencyP95Ms: number | null;
  /** False if the hour has more deliveries than were sampled. */
  readonly complete: boolean;
}

/** Selects the counted deliveries. */
export interface CountedDeliveries {
  readonly tenantId: string;
  /** If absent, all deliveries of the tenant are counted. */
  readonly endpointId?: string | undefined;
}

interface HourRow {
  readonly total: number;
  readonly delivered: number;
  readonly dead: number;
  readonly p50: number | null;
  readonly p95: number | null;
}

/** Returns the smallest id of an instant. */
function idFrom(ms: number): string {
  return newId("delivery", ms, (size) => new Uint8Array(size));
}

/** Returns SQL for the newest deliveries of an hour, at most one more than are sampled. */
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
 * Reads hours by the index over the tenant's or the endpoint's ids, which contain the time. An hour costs at most 1,001
 * rows.
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
