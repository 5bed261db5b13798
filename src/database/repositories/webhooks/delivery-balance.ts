/**
 * Compares the counts of accepted deliveries, written when they were accepted and changed, to the stored deliveries
 * (docs/operations.md, Reconciliation). Run in one repeatable-read transaction: both sides then show the same instant.
 */
import { HOUR_MS, newId, utcDay } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import { sql } from "#database/sql.ts";
import { linesBetween } from "./delivery-counts.ts";

/** Numbers of deliveries that were accepted within an hour, by their present state. */
export interface Balance {
  readonly accepted: number;
  readonly delivered: number;
  readonly dead: number;
  readonly expired: number;
  readonly cancelled: number;
  /** Queued or retrying. */
  readonly open: number;
}

export interface HourBalance {
  readonly tenant_id: string;
  readonly hour: Date;
  readonly counted: Balance;
  readonly stored: Balance;
  /** Number of deliveries with which the hour's events were stored. */
  readonly promised: number;
}

/** Returns the ids between which the rows of a span lie; of an hour, by default. */
export function idsOf(
  noun: "delivery" | "event",
  from: Date,
  spanMs = HOUR_MS,
): { readonly low: string; readonly high: string } {
  const least = (ms: number): string => newId(noun, ms, (size) => new Uint8Array(size));
  return { low: least(from.getTime()), high: least(from.getTime() + spanMs) };
}

/** Returns both sides for each tenant that accepted something in an hour (role signet_operator). */
export async function balanceHour(
  db: Queryable,
  hour: Date,
  tenantId: string | null,
): Promise<HourBalance[]> {
  const day = utcDay(hour.getTime());
  const deliveries = idsOf("delivery", hour);
  const events = idsOf("event", hour);
  const condition = sql`(${tenantId}::text IS NULL OR tenant_id = ${tenantId})`;
  const { rows } = await db.query<{
    tenant_id: string;
    counted: Omit<Balance, "open">;
    stored: Omit<Balance, "open">;
    promised: number;
  }>(
    sql`WITH counted AS (
        SELECT tenant_id, sum(accepted)::float8 AS accepted, sum(delivered)::float8 AS delivered, sum(dead)::float8 AS dead,
          sum(expired)::float8 AS expired, sum(cancelled)::float8 AS cancelled
        FROM (${linesBetween(hour, new Date(hour.getTime() + HOUR_MS), condition)}) lines GROUP BY tenant_id
      ), stored AS (
        SELECT tenant_id, count(*)::float8 AS accepted, count(*) FILTER (WHERE state = 'DELIVERED')::float8 AS delivered,
          count(*) FILTER (WHERE state = 'DEAD_LETTERED')::float8 AS dead,
          count(*) FILTER (WHERE state = 'EXPIRED')::float8 AS expired,
          count(*) FILTER (WHERE state = 'CANCELLED')::float8 AS cancelled
        FROM deliveries WHERE day = ${day} AND id >= ${deliveries.low} AND id < ${deliveries.high} AND ${condition}
        GROUP BY tenant_id
      ), promised AS (
        SELECT tenant_id, sum(deliveries)::float8 AS n FROM events
        WHERE day = ${day} AND id >= ${events.low} AND id < ${events.high} AND ${condition} GROUP BY tenant_id
      )
      SELECT tenant_id, row_to_json(c) AS counted, row_to_json(s) AS stored, coalesce(p.n, 0) AS promised
      FROM counted c FULL JOIN stored s USING (tenant_id) FULL JOIN promised p USING (tenant_id)
      ORDER BY tenant_id`,
  );
  return rows.map(({ counted, stored, ...row }) => ({
    ...row,
    hour,
    counted: withOpen(counted),
    stored: withOpen(stored),
  }));
}

function withOpen(found: Omit<Balance, "open"> | null): Balance {
  const { accepted = 0, delivered = 0, dead = 0, expired = 0, cancelled = 0 } = found ?? {};
  const open = accepted - delivered - dead - expired - cancelled;
  return { accepted, delivered, dead, expired, cancelled, open };
}

/** Whether the counts agree with the rows. Replays of missed events add deliveries to those of the events. */
export function addsUp({ counted, stored, promised }: HourBalance): boolean {
  const names = ["accepted", "delivered", "dead", "expired", "cancelled"] as const;
  return names.every((name) => counted[name] === stored[name]) && stored.accepted >= promised;
}

/** Returns events of a tenant and hour of which deliveries are missing, with their number. */
export async function findIncompleteEvents(
  db: Queryable,
  { tenant_id: tenantId, hour }: Pick<HourBalance, "tenant_id" | "hour">,
  limit: number,
): Promise<{ readonly event_id: string; readonly missing: number }[]> {
  const day = utcDay(hour.getTime());
  const { low, high } = idsOf("event", hour);
  const deliveries = idsOf("delivery", hour);
  const { rows } = await db.query<{ event_id: string; missing: number }>(
    sql`SELECT e.id AS event_id, (e.deliveries - coalesce(d.n, 0))::int AS missing
      FROM events e LEFT JOIN (
        SELECT event_id, count(*)::int AS n FROM deliveries
        WHERE day = ${day} AND id >= ${deliveries.low} AND id < ${deliveries.high} AND tenant_id = ${tenantId}
        GROUP BY event_id
      ) d ON d.event_id = e.id
      WHERE e.day = ${day} AND e.id >= ${low} AND e.id < ${high} AND e.tenant_id = ${tenantId}
        AND e.deliveries > coalesce(d.n, 0)
      ORDER BY e.id LIMIT ${limit}`,
  );
  return rows;
}
