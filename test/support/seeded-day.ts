/** The past day of a tenant with traffic: rows as the engine writes them, quiet at night, with one hour of failures. */
import { randomBytes } from "node:crypto";
import { newId } from "#domain/ids.ts";

interface Sql {
  query(text: string, values: unknown[]): Promise<unknown>;
}

const HOUR_MS = 3_600_000;
const HOURS = 23;
/** How many hours ago the receiver failed. */
const BAD_HOUR = 6;

interface SeededDelivery {
  readonly atMs: number;
  readonly latencyMs: number;
  readonly dead: boolean;
}

function deliveriesOf(hoursAgo: number, nowMs: number): SeededDelivery[] {
  const busy = Math.round(40 + 35 * Math.sin((hoursAgo / HOURS) * 2 * Math.PI));
  const bad = hoursAgo === BAD_HOUR;
  const from = Math.floor(nowMs / HOUR_MS) * HOUR_MS - hoursAgo * HOUR_MS;
  return Array.from({ length: busy }, (_, n) => ({
    atMs: from + Math.floor((n / busy) * HOUR_MS),
    latencyMs: (bad ? 400 : 30) + ((n * 37) % 90),
    dead: bad && n % 3 === 0,
  }));
}

/** Inserts a day of deliveries. */
export async function seedDay(
  sql: Sql,
  { tenantId, endpointId }: { readonly tenantId: string; readonly endpointId: string },
): Promise<void> {
  await sql.query("SELECT ensure_day_partitions((now() - interval '2 days')::date, 3)", []);
  const nowMs = Date.now();
  const made = Array.from({ length: HOURS }, (_, hour) => deliveriesOf(hour + 1, nowMs)).flat();
  await sql.query(
    `WITH made AS (
        SELECT * FROM unnest($3::text[], $4::text[], $5::timestamptz[], $6::int[], $7::boolean[])
          AS m(delivery, event, at, latency, dead)
      ), published AS (
        INSERT INTO events (day, id, tenant_id, type, data, occurred_at, deliveries, created_at)
        SELECT (at AT TIME ZONE 'UTC')::date, event, $1, 'chart.drawn', '{}', at, 1, at FROM made
      ), counted AS (
        INSERT INTO delivery_changes (tenant_id, endpoint_id, event_type, hour, attempt_hour, accepted, attempts, failed)
        SELECT $1, $2, 'chart.drawn', hour, hour, count(*), sum(CASE WHEN dead THEN 17 ELSE 1 END),
          17 * count(*) FILTER (WHERE dead)
        FROM (SELECT *, date_trunc('hour', at, 'UTC') AS hour FROM made) m GROUP BY hour
      )
      INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, reason, attempt_count,
        cycle_started_at, last_status, last_error, created_at, delivered_at, dead_lettered_at, expires_at)
      SELECT (at AT TIME ZONE 'UTC')::date, delivery, $1, event, 'chart.drawn', $2,
        CASE WHEN dead THEN 'DEAD_LETTERED' ELSE 'DELIVERED' END, CASE WHEN dead THEN 'attempts_exhausted' END,
        CASE WHEN dead THEN 17 ELSE 1 END, at, CASE WHEN dead THEN 500 ELSE 200 END, CASE WHEN dead THEN 'status' END, at,
        CASE WHEN NOT dead THEN at + latency * interval '1 millisecond' END, CASE WHEN dead THEN at END,
        CASE WHEN dead THEN at + interval '7 days' END
      FROM made`,
    [
      tenantId,
      endpointId,
      made.map(({ atMs }) => newId("delivery", atMs, randomBytes)),
      made.map(({ atMs }) => newId("event", atMs, randomBytes)),
      made.map(({ atMs }) => new Date(atMs)),
      made.map(({ latencyMs }) => latencyMs),
      made.map(({ dead }) => dead),
    ],
  );
}
