/** Deliveries by the hour of their acceptance: exact counts, and latencies of a sample. */
import { HOUR_MS, idAt } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import { type CountedDeliveries, readCounts } from "./delivery-counts.ts";
import { SETTLED_AND_QUEUED } from "./delivery-filter.ts";

/** Maximum number of deliveries sampled per hour, newest first. */
const HOUR_SAMPLE = 1_000;

export interface HourOfDeliveries {
  readonly hour: Date;
  /** Accepted in this hour. */
  readonly total: number;
  readonly delivered: number;
  /** Dead letters, including expired ones. */
  readonly dead_lettered: number;
  /** Attempts that ended in this hour. */
  readonly attempts: number;
  readonly failed_attempts: number;
  /** Time from acceptance to acknowledgement, in milliseconds; null if nothing was delivered. */
  readonly latency_p50_ms: number | null;
  readonly latency_p95_ms: number | null;
  /** False if the hour has more deliveries than were sampled for the latencies. */
  readonly complete: boolean;
}

interface LatencyRow {
  readonly sampled: number;
  readonly p50: number | null;
  readonly p95: number | null;
}

/** Returns SQL for the newest deliveries of an hour, at most one more than are sampled. */
function newestOf(condition: string): string {
  // A resend is no measure of latency.
  return `SELECT d.id, d.created_at, CASE WHEN d.resent_cycles IS NULL THEN d.delivered_at END AS delivered_at
    FROM deliveries d
    WHERE d.tenant_id = $1 AND d.day = h.day AND d.id >= h.low COLLATE "C" AND d.id < h.high COLLATE "C" AND ${condition}
    ORDER BY d.id DESC LIMIT $5`;
}

const NEWEST_OF_TENANT = newestOf("true");
const NEWEST_OF_ENDPOINT = `SELECT * FROM (${SETTLED_AND_QUEUED.map(
  (part) => `(${newestOf(`d.endpoint_id = $6 AND ${part}`)})`,
).join(" UNION ALL ")}) d ORDER BY d.id DESC LIMIT $5`;

/**
 * Reads hours. An hour costs its counts, and at most 1,001 deliveries by the index over the tenant's or the endpoint's
 * ids, which contain the time.
 *
 * @param hours successive hours
 */
export async function readDeliveryHours(
  db: Queryable,
  counted: CountedDeliveries,
  hours: readonly Date[],
): Promise<HourOfDeliveries[]> {
  const [from = new Date(0)] = hours;
  const to = new Date((hours.at(-1) ?? from).getTime() + HOUR_MS);
  const counts = new Map(
    (await readCounts(db, counted, { from, to })).map((row) => [row.hour.getTime(), row]),
  );
  const latencies = await readLatencies(db, counted, hours);
  return hours.map((hour, index) => {
    const {
      accepted = 0,
      delivered = 0,
      dead = 0,
      expired = 0,
      attempts = 0,
      failed = 0,
    } = counts.get(hour.getTime()) ?? {};
    const latency = latencies[index];
    return {
      hour,
      total: accepted,
      delivered,
      dead_lettered: dead + expired,
      attempts,
      failed_attempts: failed,
      latency_p50_ms: latency?.p50 ?? null,
      latency_p95_ms: latency?.p95 ?? null,
      complete: (latency?.sampled ?? 0) <= HOUR_SAMPLE,
    };
  });
}

async function readLatencies(
  db: Queryable,
  { tenantId, endpointId }: CountedDeliveries,
  hours: readonly Date[],
): Promise<LatencyRow[]> {
  const { rows } = await db.query<LatencyRow>({
    name: endpointId === undefined ? "read-latencies" : "read-latencies-of-endpoint",
    text: `SELECT s.sampled, s.p50, s.p95
      FROM unnest($2::date[], $3::text[], $4::text[]) WITH ORDINALITY AS h(day, low, high, ord)
      CROSS JOIN LATERAL (
        SELECT count(*)::int AS sampled,
          percentile_disc(0.5) WITHIN GROUP (ORDER BY n.latency) AS p50,
          percentile_disc(0.95) WITHIN GROUP (ORDER BY n.latency) AS p95
        FROM (
          SELECT CASE WHEN d.delivered_at IS NOT NULL THEN
              greatest(0, round(extract(epoch FROM d.delivered_at - d.created_at) * 1000))::float8 END AS latency
          FROM (${endpointId === undefined ? NEWEST_OF_TENANT : NEWEST_OF_ENDPOINT}) d
        ) n
      ) s ORDER BY h.ord`,
    values: [
      tenantId,
      hours.map((hour) => hour.toISOString().slice(0, 10)),
      hours.map((hour) => idAt("delivery", hour.getTime())),
      hours.map((hour) => idAt("delivery", hour.getTime() + HOUR_MS)),
      HOUR_SAMPLE + 1,
      ...(endpointId === undefined ? [] : [endpointId]),
    ],
  });
  return rows;
}
