/** Inserts rows of past deliveries, as the service would have written them. */
import { withClient } from "../environment/postgres.ts";

const DAYS = 30;

/**
 * Ids as in contract 9.2: ten characters of time (48 bits and two random ones), fourteen random ones. Hexadecimal digits are
 * valid base32 digits, with enough randomness for a bench.
 */
const ID_BODY = `CREATE FUNCTION pg_temp.id_body(at timestamptz) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', ((bits >> (45 - 5 * n)) & 31)::int + 1, 1), '' ORDER BY n)
         || substr(md5(random()::text), 1, 14)
  FROM (SELECT ((extract(epoch FROM at) * 1000)::bigint << 2) + floor(random() * 4)::bigint AS bits) AS time,
       generate_series(0, 9) AS n $$`;

/** One day's share, spread over its hours and over all active endpoints. */
const FILL_DAY = `WITH targets AS (
    SELECT id, tenant_id, event_types[1] AS type, row_number() OVER (ORDER BY id) - 1 AS n, count(*) OVER () AS of
    FROM endpoints WHERE state = 'ACTIVE'
  ), drawn AS MATERIALIZED (
    SELECT t.*, at, pg_temp.id_body(at) AS event_body, pg_temp.id_body(at) AS delivery_body,
      pg_temp.id_body(at) AS attempt_body, random() AS r
    FROM generate_series(1, $2::int) AS i
    CROSS JOIN LATERAL (
      SELECT $1::date::timestamp AT TIME ZONE 'UTC' + make_interval(secs => $3::float8 * i / ($2::int + 1)) AS at
    ) AS instant
    JOIN targets t ON t.n = i % t.of
  ), published AS (
    INSERT INTO events (day, id, tenant_id, type, data, occurred_at, deliveries, created_at)
    SELECT $1, 'evt_' || event_body, tenant_id, type,
      '{"bench_id":"history-' || event_body || '","pad":"' || repeat('x', 440) || '"}', at, 1, at FROM drawn
  ), delivered AS (
    INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, carrier, claimed_at,
      attempt_count, cycle_started_at, last_status, created_at, delivered_at)
    SELECT $1, 'dlv_' || delivery_body, tenant_id, 'evt_' || event_body, type, id, 'DELIVERED', 'bat_' || attempt_body,
      at, 1, at, 200, at, at + interval '40 ms' FROM drawn
  )
  INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms, status, response_body)
  SELECT $1, 'dlv_' || delivery_body, 1, 1, 'att_' || attempt_body, tenant_id, at, 5 + (r * 30)::int, 200, '' FROM drawn`;

/** The counts of a day's rows, as the worker has folded them. The triggers that count inserted rows are off. */
const COUNT_DAY = `INSERT INTO delivery_counts
  SELECT tenant_id, date_trunc('hour', created_at, 'UTC'), endpoint_id, event_type, 0, 0, count(*), count(*), 0, 0, 0, count(*), 0
  FROM deliveries WHERE day = $1 GROUP BY 1, 2, 3, 4 ON CONFLICT DO NOTHING`;

/** Inserts delivered deliveries with event and attempt, spread over the last 30 days, as superuser. */
export async function fillHistory(adminDatabaseUrl: string, deliveries: number): Promise<void> {
  await withClient(adminDatabaseUrl, async (client) => {
    await client.query("SET TimeZone = 'UTC'");
    await client.query("SELECT ensure_day_partitions((now() - make_interval(days => $1))::date, $1 + 1)", [
      DAYS,
    ]);
    await client.query(ID_BODY);
    await client.query("SET signet.moving = 'on'");
    const { rows } = await client.query<{ day: string; seconds: number }>(
      `SELECT to_char(day, 'YYYY-MM-DD') AS day,
         least(86399, extract(epoch FROM now() - day) - 1)::float8 AS seconds
       FROM generate_series((now() - make_interval(days => $1))::date, now()::date, interval '1 day') AS day`,
      [DAYS - 1],
    );
    const perDay = Math.ceil(deliveries / rows.length);
    for (const { day, seconds } of rows) {
      await client.query(FILL_DAY, [day, perDay, seconds]);
      await client.query(COUNT_DAY, [day]);
    }
    // As after an autovacuum, so that the measured run does not pay for hint bits and missing statistics.
    await client.query("VACUUM (ANALYZE) events, deliveries, attempts, delivery_counts");
    await client.query("CHECKPOINT");
  });
}
