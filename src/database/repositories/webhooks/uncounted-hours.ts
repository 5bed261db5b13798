/**
 * Counts deliveries and events that were stored before migration 0046, by the hour of their acceptance (decision 36).
 *
 * Rows, counts and unfolded changes are read at one instant. What the rows have more than the counts and changes does not
 * depend on that instant: whatever changes a row appends the same change. So the difference is appended as a change, too.
 */
import { HOUR_MS, utcDay } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import { raw, sql } from "#database/sql.ts";
import { idsOf } from "./delivery-balance.ts";
import { linesBetween } from "./delivery-counts.ts";

/** Slices of an hour that are read by one statement each: its limit is 8 s. */
const SLICES = 12;
const NUMBERS = ["events", "bytes", "accepted", "delivered", "dead", "expired", "cancelled"] as const;

type Numbers = Record<(typeof NUMBERS)[number], number>;

interface Place {
  readonly tenant_id: string;
  readonly endpoint_id: string;
  readonly event_type: string;
}

type Line = Place & Numbers;

/** The hour, or `retries`: those of all hours, in the activity of endpoints. */
export type Uncounted = Date | "retries";

/** Locks what is to be counted next, unless another worker counts it. */
export async function takeUncounted(db: Queryable, now: Date): Promise<Uncounted | undefined> {
  const { rows } = await db.query<{ hour: Date | null }>(
    sql`SELECT nullif(hour, 'infinity') AS hour FROM uncounted_hours
      WHERE hour <= ${new Date(now.getTime() - HOUR_MS)} OR hour = 'infinity'
      ORDER BY hour DESC LIMIT 1 FOR UPDATE SKIP LOCKED`,
  );
  return rows[0] === undefined ? undefined : (rows[0].hour ?? "retries");
}

/** Records that it is counted. */
export async function completeUncounted(db: Queryable, counted: Uncounted): Promise<void> {
  await db.query(
    sql`DELETE FROM uncounted_hours WHERE hour = ${counted === "retries" ? "infinity" : counted}`,
  );
}

/** Returns the number of hours that have ended and are not counted (role signet_worker or signet_operator). */
export async function countUncounted(db: Queryable, now: Date): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    sql`SELECT count(*)::int AS n FROM uncounted_hours WHERE hour <= ${new Date(now.getTime() - HOUR_MS)}`,
  );
  return rows[0]?.n ?? 0;
}

/** Returns which of these hours are not counted, in milliseconds of Unix time. */
export async function findUncounted(db: Queryable, hours: readonly Date[]): Promise<ReadonlySet<number>> {
  const { rows } = await db.query<{ hour: Date }>(
    sql`SELECT hour FROM uncounted_hours WHERE hour = ANY (${hours}::timestamptz[])`,
  );
  return new Set(rows.map(({ hour }) => hour.getTime()));
}

/** Returns what a slice of an hour stores, by place. */
async function storedIn(db: Queryable, from: Date): Promise<Line[]> {
  const day = utcDay(from.getTime());
  const deliveries = idsOf("delivery", from, HOUR_MS / SLICES);
  const events = idsOf("event", from, HOUR_MS / SLICES);
  const inState = (state: string): string => `count(*) FILTER (WHERE state = '${state}')::float8`;
  const { rows } = await db.query<Line>({
    name: "stored-in-slice",
    ...sql`SELECT tenant_id, endpoint_id, event_type, 0::float8 AS events, 0::float8 AS bytes,
        count(*)::float8 AS accepted, ${raw(inState("DELIVERED"))} AS delivered, ${raw(inState("DEAD_LETTERED"))} AS dead,
        ${raw(inState("EXPIRED"))} AS expired, ${raw(inState("CANCELLED"))} AS cancelled
      FROM deliveries WHERE day = ${day} AND id >= ${deliveries.low} AND id < ${deliveries.high} GROUP BY 1, 2, 3
      UNION ALL
      SELECT tenant_id, '', type, count(*)::float8, sum(coalesce(octet_length(content), octet_length(data), 0))::float8,
        0, 0, 0, 0, 0
      FROM events WHERE day = ${day} AND id >= ${events.low} AND id < ${events.high} AND own IS NOT TRUE GROUP BY 1, 3`,
  });
  return rows;
}

/** Returns what is counted of an hour, folded or not, by place. */
async function countedOf(db: Queryable, hour: Date): Promise<Line[]> {
  const { rows } = await db.query<Line>(
    sql`SELECT tenant_id, endpoint_id, event_type, ${raw(NUMBERS.map((name) => `sum(${name})::float8 AS ${name}`).join(", "))}
      FROM (${linesBetween(hour, new Date(hour.getTime() + HOUR_MS), sql`true`)}) lines GROUP BY 1, 2, 3`,
  );
  return rows;
}

function addTo(sums: Map<string, Line>, lines: readonly Line[], sign: 1 | -1): void {
  for (const line of lines) {
    const key = `${line.tenant_id} ${line.endpoint_id} ${line.event_type}`;
    const sum = sums.get(key);
    if (sum === undefined) {
      const numbers = NUMBERS.map((name) => [name, sign * line[name]]);
      sums.set(key, { ...line, ...(Object.fromEntries(numbers) as Numbers) });
    } else {
      for (const name of NUMBERS) {
        sum[name] += sign * line[name];
      }
    }
  }
}

/** Appends the changes by which an hour's rows differ from its counts. Run in a repeatable-read transaction. */
export async function countHour(db: Queryable, hour: Date): Promise<void> {
  const sums = new Map<string, Line>();
  for (let slice = 0; slice < SLICES; slice += 1) {
    addTo(sums, await storedIn(db, new Date(hour.getTime() + (slice * HOUR_MS) / SLICES)), 1);
  }
  addTo(sums, await countedOf(db, hour), -1);
  const missing = [...sums.values()]
    // Contents that were counted may have been erased since.
    .map((line) => ({ ...line, bytes: Math.max(0, line.bytes) }))
    .filter((line) => NUMBERS.some((name) => line[name] !== 0));
  const numbers = NUMBERS.map((name) => sql`${missing.map((line) => line[name])}::bigint[]`).reduce(
    (list, column) => sql`${list}, ${column}`,
  );
  const columns = raw(NUMBERS.join(", "));
  await db.query(
    sql`INSERT INTO delivery_changes (hour, tenant_id, endpoint_id, event_type, ${columns})
      SELECT ${hour}::timestamptz, m.* FROM unnest(${missing.map((line) => line.tenant_id)}::text[],
        ${missing.map((line) => line.endpoint_id)}::text[], ${missing.map((line) => line.event_type)}::text[], ${numbers})
        AS m(tenant_id, endpoint_id, event_type, ${columns})
      WHERE NOT is_erased(m.tenant_id)`,
  );
}

/** The same for the numbers of retries in the activity of endpoints. */
export async function countRetries(db: Queryable): Promise<void> {
  const { rows: days } = await db.query<{ day: string }>(
    `SELECT DISTINCT (hour AT TIME ZONE 'UTC')::date AS day FROM uncounted_hours WHERE hour <> 'infinity'`,
  );
  const sums = new Map<string, { readonly tenantId: string; retrying: number }>();
  const add = (
    rows: readonly { tenant_id: string; endpoint_id: string; n: number }[],
    sign: 1 | -1,
  ): void => {
    for (const { tenant_id: tenantId, endpoint_id: endpointId, n } of rows) {
      const { retrying = 0 } = sums.get(endpointId) ?? {};
      sums.set(endpointId, { tenantId, retrying: retrying + sign * n });
    }
  };
  for (const { day } of days) {
    const { rows } = await db.query<{ tenant_id: string; endpoint_id: string; n: number }>(
      // For a limit that it does not know, the planner follows an index that is in order.
      sql`SELECT tenant_id, endpoint_id, count(*)::int AS n FROM (
          SELECT tenant_id, endpoint_id FROM deliveries WHERE day = ${day} AND state = 'RETRYING'
          ORDER BY tenant_id, day, id LIMIT (SELECT 2147483647)
        ) retrying GROUP BY 1, 2`,
    );
    add(rows, 1);
  }
  const { rows: counted } = await db.query<{ tenant_id: string; endpoint_id: string; n: number }>(
    `SELECT tenant_id, endpoint_id, sum(retrying)::int AS n FROM (
        SELECT tenant_id, endpoint_id, retrying FROM endpoint_activity
        UNION ALL SELECT tenant_id, endpoint_id, retrying FROM delivery_changes WHERE endpoint_id <> ''
      ) known GROUP BY 1, 2`,
  );
  add(counted, -1);
  const missing = [...sums].filter(([, { retrying }]) => retrying !== 0);
  await db.query(
    sql`INSERT INTO delivery_changes (tenant_id, endpoint_id, event_type, retrying)
      SELECT m.tenant_id, m.endpoint_id, '', m.retrying FROM unnest(
        ${missing.map(([, { tenantId }]) => tenantId)}::text[], ${missing.map(([endpointId]) => endpointId)}::text[],
        ${missing.map(([, { retrying }]) => retrying)}::int[]) AS m(tenant_id, endpoint_id, retrying)
      WHERE NOT is_erased(m.tenant_id)`,
  );
}
