/**
 * Exact counts of deliveries and attempts, and the health of endpoints (decision 29). Statements that change deliveries
 * append lines to `delivery_changes`; the worker folds the lines. Readers add the lines that are not folded yet.
 */
import type { AttemptError } from "#domain/delivery.ts";
import type { Health, Results } from "#domain/endpoint-health.ts";
import { DAY_MS, HOUR_MS, hourStart } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import { raw, sql, type Statement } from "#database/sql.ts";

/** Counted by the hour in which a delivery or event was accepted, except attempts: by the hour in which they ended. */
const COUNTS = [
  "events",
  "bytes",
  "accepted",
  "delivered",
  "dead",
  "expired",
  "cancelled",
  "attempts",
  "failed",
] as const;

/** Numbers of events published, of bytes in them, of deliveries by state, and of attempts, all and failed ones. */
export type Counts = Readonly<Record<(typeof COUNTS)[number], number>>;

/** What counts are kept by. The endpoint is `''` on the counts of events. */
interface CountedPlace {
  readonly tenant_id: string;
  readonly endpoint_id: string;
  readonly event_type: string;
}

/** A line that says something about an endpoint. */
interface ActivityLine extends Pick<CountedPlace, "tenant_id" | "endpoint_id">, Pick<Counts, "dead"> {
  readonly retrying: number;
  readonly results: Results | null;
  readonly ended_at: Date | null;
  readonly failed_at: Date | null;
  readonly status: number | null;
  readonly error: AttemptError | null;
}

/** What the folded lines say about an endpoint. */
export interface ActivityChange {
  readonly tenantId: string;
  readonly endpointId: string;
  readonly retrying: number;
  readonly dead: number;
  /** In the order of their ends; empty without attempts. */
  readonly results: Results;
  /** The newest failure among them. */
  readonly failure: LastFailure | undefined;
  /** When the first attempt of these ended. */
  readonly firstEndedAt: Date | null;
}

export interface LastFailure {
  readonly at: Date;
  readonly status: number | null;
  readonly error: AttemptError;
}

const OF_ATTEMPTS: readonly (keyof Counts)[] = ["attempts", "failed"];
const COLUMNS = COUNTS.join(", ");

/** SQL that selects the counts of lines that go by one of their hours, and zeros for the others. */
function countsBy(hour: "hour" | "attempt_hour", table: string): string {
  const counts = COUNTS.map((name) =>
    OF_ATTEMPTS.includes(name) === (hour === "attempt_hour") ? name : "0",
  );
  return `SELECT tenant_id, ${hour}, endpoint_id, event_type, ${counts.join(", ")} FROM ${table}`;
}

/** The lines are added up where they are: thousands of endpoints have as many, which need not come here. */
const FOLD = `WITH taken AS MATERIALIZED (
    -- By no index: the table holds the lines of about a second. Its key is for logical replication.
    DELETE FROM delivery_changes WHERE ctid = ANY (ARRAY(SELECT ctid FROM delivery_changes LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING tenant_id, endpoint_id, event_type, hour, attempt_hour, ${COLUMNS}, retrying, results, ended_at, failed_at,
      status, error
  ), counted AS (
    INSERT INTO delivery_counts AS c (tenant_id, hour, endpoint_id, event_type, ${COLUMNS})
    SELECT tenant_id, hour, endpoint_id, event_type, ${COUNTS.map((name) => `sum(${name})`).join(", ")}
    FROM (${countsBy("hour", "taken")} WHERE hour IS NOT NULL
      UNION ALL ${countsBy("attempt_hour", "taken")} WHERE attempt_hour IS NOT NULL
    ) AS each (tenant_id, hour, endpoint_id, event_type, ${COLUMNS})
    -- In one order, so that two workers do not deadlock.
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, event_type COLLATE "C"
    ON CONFLICT (tenant_id, hour, endpoint_id, event_type) DO UPDATE
      SET ${COUNTS.map((name) => `${name} = c.${name} + excluded.${name}`).join(", ")}
  )
  SELECT folded.lines, active.* FROM (SELECT count(*)::int AS lines FROM taken) folded LEFT JOIN (
    SELECT tenant_id, endpoint_id, dead, retrying, results, ended_at, failed_at, status, error FROM taken
    WHERE endpoint_id <> '' AND (dead <> 0 OR retrying <> 0 OR results IS NOT NULL)
  ) active ON true`;

/** What a fold has added up. */
interface Folded {
  /** Number of lines. */
  readonly lines: number;
  /** What they say about endpoints, for {@link saveActivity} in the same transaction. */
  readonly changes: readonly ActivityChange[];
}

/** Takes the oldest lines, and adds them to the counts of their hours (role signet_worker). */
export async function foldCounts(db: Queryable, limit: number): Promise<Folded> {
  const { rows } = await db.query<{ lines: number } & (ActivityLine | { readonly endpoint_id: null })>({
    name: "fold-delivery-changes",
    text: FOLD,
    values: [limit],
  });
  const active = rows.flatMap(({ lines: _lines, ...line }) => (line.endpoint_id === null ? [] : [line]));
  return { lines: rows[0]?.lines ?? 0, changes: activityChanges(active) };
}

const NO_CHANGE = { retrying: 0, dead: 0, results: "", failure: undefined };

/** Returns what the lines change about each endpoint, in the order of their ids. */
function activityChanges(lines: readonly ActivityLine[]): ActivityChange[] {
  const changes = new Map<string, ActivityChange>();
  const inOrder = lines.toSorted((a, b) => (a.ended_at?.getTime() ?? 0) - (b.ended_at?.getTime() ?? 0));
  for (const line of inOrder) {
    const before = changes.get(line.endpoint_id) ?? { ...line, ...NO_CHANGE, firstEndedAt: line.ended_at };
    const { failed_at: at, status, error } = line;
    changes.set(line.endpoint_id, {
      tenantId: line.tenant_id,
      endpointId: line.endpoint_id,
      retrying: before.retrying + line.retrying,
      dead: before.dead + line.dead,
      results: before.results + (line.results ?? ""),
      failure: at === null || error === null ? before.failure : { at, status, error },
      firstEndedAt: before.firstEndedAt ?? line.ended_at,
    });
  }
  return [...changes.values()]
    .filter(({ retrying, dead, results }) => retrying !== 0 || dead !== 0 || results !== "")
    .sort((a, b) => (a.endpointId < b.endpointId ? -1 : 1));
}

/** State of an endpoint, as its deliveries and latest attempts show it. */
export interface EndpointActivity {
  readonly health: Health;
  /** When the health last changed; null if it never did. */
  readonly health_since: Date | null;
  readonly results: Results;
  /** End of the first of the failures in a row; null if the last attempt succeeded. */
  readonly failing_since: Date | null;
  readonly lastFailure: LastFailure | null;
  readonly retrying: number;
  readonly dead: number;
}

interface ActivityRow {
  readonly endpoint_id: string;
  readonly health: Health;
  readonly health_since: Date | null;
  readonly results: Results;
  readonly failing_since: Date | null;
  readonly last_failure_at: Date | null;
  readonly last_status: number | null;
  readonly last_error: AttemptError | null;
  readonly retrying: number;
  readonly dead: number;
}

const ACTIVITY = raw(`a.endpoint_id, a.health, a.health_since, a.results,
  a.failing_since, a.last_failure_at, a.last_status,
  a.last_error, a.retrying, a.dead`);

function toActivity(row: ActivityRow): EndpointActivity {
  const { last_failure_at: at, last_status: status, last_error: error, endpoint_id: _id, ...activity } = row;
  return { ...activity, lastFailure: at === null || error === null ? null : { at, status, error } };
}

/** Locks the endpoints, whose ids are in order, and returns the activity of those that had any. */
export async function lockActivity(
  db: Queryable,
  endpointIds: readonly string[],
): Promise<ReadonlyMap<string, EndpointActivity>> {
  const { rows } = await db.query<ActivityRow>({
    name: "lock-endpoint-activity",
    ...sql`SELECT ${ACTIVITY} FROM endpoint_activity a WHERE a.endpoint_id = ANY (${endpointIds}::text[])
      ORDER BY a.endpoint_id FOR UPDATE`,
  });
  return new Map(rows.map((row) => [row.endpoint_id, toActivity(row)]));
}

/** The activity of an endpoint after its changes. Its numbers are differences. */
export interface ChangedActivity extends EndpointActivity {
  readonly tenantId: string;
  readonly endpointId: string;
}

/** Stores activities, except those of endpoints that no longer exist. Adds `retrying` and `dead` to the stored numbers. */
export async function saveActivity(db: Queryable, changed: readonly ChangedActivity[]): Promise<void> {
  await db.query({
    name: "save-endpoint-activity",
    ...sql`INSERT INTO endpoint_activity AS a (endpoint_id, tenant_id, health, health_since, results, failing_since,
        last_failure_at, last_status, last_error, retrying, dead)
      SELECT c.* FROM unnest(
        ${changed.map(({ endpointId }) => endpointId)}::text[], ${changed.map(({ tenantId }) => tenantId)}::text[],
        ${changed.map(({ health }) => health)}::text[], ${changed.map(({ health_since: healthSince }) => healthSince)}::timestamptz[],
        ${changed.map(({ results }) => results)}::text[],
        ${changed.map(({ failing_since: failingSince }) => failingSince)}::timestamptz[],
        ${changed.map(({ lastFailure }) => lastFailure?.at ?? null)}::timestamptz[],
        ${changed.map(({ lastFailure }) => lastFailure?.status ?? null)}::int[],
        ${changed.map(({ lastFailure }) => lastFailure?.error ?? null)}::text[],
        ${changed.map(({ retrying }) => retrying)}::int[], ${changed.map(({ dead }) => dead)}::int[]
      ) AS c(endpoint_id, tenant_id, health, health_since, results, failing_since, last_failure_at, last_status,
        last_error, retrying, dead)
      WHERE EXISTS (SELECT FROM endpoints e WHERE e.id = c.endpoint_id)
      ON CONFLICT (endpoint_id) DO UPDATE SET health = excluded.health, health_since = excluded.health_since,
        results = excluded.results, failing_since = excluded.failing_since,
        last_failure_at = excluded.last_failure_at, last_status = excluded.last_status,
        last_error = excluded.last_error, retrying = a.retrying + excluded.retrying, dead = a.dead + excluded.dead`,
  });
}

/** An endpoint's activity with its attempts since the start of an hour. */
export interface ReportedActivity extends EndpointActivity {
  readonly recent: { readonly since: Date; readonly attempts: number; readonly failed: number };
}

/** Activity of an endpoint without deliveries. */
export const NO_ACTIVITY: EndpointActivity = {
  health: "healthy",
  health_since: null,
  results: "",
  failing_since: null,
  lastFailure: null,
  retrying: 0,
  dead: 0,
};

/**
 * Returns the activity of a tenant's endpoints, by id, with the attempts of the current hour and the one before. Health is
 * about a second old; the numbers are exact.
 */
export async function findActivity(
  db: Queryable,
  { tenantId, endpointIds, now }: { tenantId: string; endpointIds: readonly string[]; now: Date },
): Promise<ReadonlyMap<string, ReportedActivity>> {
  const since = new Date(hourStart(now.getTime()) - HOUR_MS);
  const { rows } = await db.query<ActivityRow & { readonly attempts: number; readonly failed: number }>({
    name: "find-endpoint-activity",
    ...sql`WITH wanted AS (SELECT unnest(${endpointIds}::text[]) AS endpoint_id), unfolded AS (
        SELECT endpoint_id, sum(retrying) AS retrying, sum(dead) AS dead,
          sum(attempts) FILTER (WHERE attempt_hour >= ${since}) AS attempts,
          sum(failed) FILTER (WHERE attempt_hour >= ${since}) AS failed
        FROM delivery_changes WHERE tenant_id = ${tenantId} GROUP BY endpoint_id
      ), recent AS (
        SELECT endpoint_id, sum(attempts) AS attempts, sum(failed) AS failed FROM delivery_counts
        WHERE tenant_id = ${tenantId} AND hour >= ${since} AND endpoint_id IN (SELECT endpoint_id FROM wanted)
        GROUP BY endpoint_id
      )
      SELECT w.endpoint_id, coalesce(a.health, 'healthy') AS health, a.health_since,
        coalesce(a.results, '') AS results, a.failing_since, a.last_failure_at,
        a.last_status, a.last_error,
        greatest(0, coalesce(a.retrying, 0) + coalesce(u.retrying, 0))::int AS retrying,
        greatest(0, coalesce(a.dead, 0) + coalesce(u.dead, 0))::int AS dead,
        (coalesce(r.attempts, 0) + coalesce(u.attempts, 0))::int AS attempts,
        (coalesce(r.failed, 0) + coalesce(u.failed, 0))::int AS failed
      FROM wanted w
      LEFT JOIN endpoint_activity a ON a.endpoint_id = w.endpoint_id AND a.tenant_id = ${tenantId}
      LEFT JOIN unfolded u ON u.endpoint_id = w.endpoint_id
      LEFT JOIN recent r ON r.endpoint_id = w.endpoint_id`,
  });
  return new Map(
    rows.map(({ attempts, failed, ...row }) => [
      row.endpoint_id,
      { ...toActivity(row), recent: { since, attempts, failed } },
    ]),
  );
}

/** Maximum number of unhealthy endpoints that are read at once. */
const UNHEALTHY_MAX = 1_000;

/** Returns the endpoints of a tenant that are not healthy. */
export async function listUnhealthy(
  db: Queryable,
  tenantId: string,
): Promise<{ readonly endpoint_id: string; readonly health: Health }[]> {
  const { rows } = await db.query<{ endpoint_id: string; health: Health }>({
    name: "list-unhealthy-endpoints",
    ...sql`SELECT endpoint_id, health FROM endpoint_activity
      WHERE tenant_id = ${tenantId} AND health <> 'healthy' ORDER BY endpoint_id LIMIT ${UNHEALTHY_MAX}`,
  });
  return rows;
}

/** Returns the number of endpoints that are degraded, and of those that are failing (role signet_worker). */
export async function countUnhealthy(
  db: Queryable,
): Promise<{ readonly degraded: number; readonly failing: number }> {
  const { rows } = await db.query<{ degraded: number; failing: number }>({
    name: "count-unhealthy-endpoints",
    text: `SELECT count(*) FILTER (WHERE health = 'degraded')::int AS degraded,
        count(*) FILTER (WHERE health = 'failing')::int AS failing
      FROM endpoint_activity a JOIN endpoints e ON e.id = a.endpoint_id
      WHERE a.health <> 'healthy' AND e.state = 'ACTIVE'`,
  });
  return rows[0] ?? { degraded: 0, failing: 0 };
}

/** Selects counts of a tenant. */
export interface CountedDeliveries {
  readonly tenantId: string;
  /** If absent, all endpoints are counted. */
  readonly endpointId?: string | undefined;
  /** If absent, all event types are counted. */
  readonly eventType?: string | undefined;
}

export interface CountsOfHour extends Counts {
  readonly hour: Date;
}

const SUMS = raw(COUNTS.map((name) => `sum(${name})::float8 AS ${name}`).join(", "));

/** Returns SQL for the lines of folded and unfolded counts between two instants, in hours. */
export function linesBetween(from: Date, to: Date, condition: Statement): Statement {
  const within = (hour: "hour" | "attempt_hour"): Statement =>
    sql`${raw(countsBy(hour, "delivery_changes"))} WHERE ${raw(hour)} >= ${from} AND ${raw(hour)} < ${to} AND ${condition}`;
  return sql`SELECT tenant_id, hour, endpoint_id, event_type, ${raw(COLUMNS)} FROM delivery_counts
      WHERE hour >= ${from} AND hour < ${to} AND ${condition}
    UNION ALL ${within("hour")} UNION ALL ${within("attempt_hour")}`;
}

/** Returns the counts of each hour that has any, from `from` to before `to`, oldest first. */
export async function readCounts(
  db: Queryable,
  { tenantId, endpointId, eventType }: CountedDeliveries,
  { from, to }: { readonly from: Date; readonly to: Date },
): Promise<CountsOfHour[]> {
  const condition = sql`tenant_id = ${tenantId} AND (${endpointId ?? null}::text IS NULL OR endpoint_id = ${endpointId ?? null})
    AND (${eventType ?? null}::text IS NULL OR event_type = ${eventType ?? null})`;
  const { rows } = await db.query<CountsOfHour>({
    name: "read-delivery-counts",
    ...sql`SELECT hour, ${SUMS} FROM (${linesBetween(from, to, condition)}) lines GROUP BY hour ORDER BY hour`,
  });
  return rows;
}

/** A tenant's counts of one UTC day. */
export interface DayOfUsage extends Counts {
  readonly tenant_id: string;
  /** `YYYY-MM-DD` */
  readonly day: string;
}

/** Days to read, at most `limit` rows. `to` is the day after the last one. */
export interface UsageSpan {
  readonly from: Date;
  readonly to: Date;
  readonly limit: number;
}

/**
 * Returns the counts by tenant and day, in this order, for the days that have any (role signet_api or signet_operator).
 *
 * @param tenants ids; null for all tenants
 */
export async function readUsage(
  db: Queryable,
  tenants: readonly string[] | null,
  { from, to, limit }: UsageSpan,
): Promise<DayOfUsage[]> {
  const condition = sql`(${tenants}::text[] IS NULL OR tenant_id = ANY (${tenants}))`;
  const { rows } = await db.query<DayOfUsage>(
    // Unnamed, because a generic plan could not leave out the condition.
    sql`SELECT tenant_id, (hour AT TIME ZONE 'UTC')::date AS day, ${SUMS}
      FROM (${linesBetween(from, to, condition)}) lines GROUP BY 1, 2 ORDER BY 1, 2 LIMIT ${limit}`,
  );
  return rows;
}

/** Tenants whose counts a page reads at most. If none of them has any, the page is empty. */
const TENANTS_MAX = 1_000;

/**
 * Returns a page of {@link readUsage} and the place after which the next page begins: a tenant and its day, null after
 * the last one. Reads the tenants in groups that can fill the page.
 */
export async function readUsagePage(
  db: Queryable,
  tenantId: string | null,
  { after: [afterTenant, afterDay], ...span }: UsageSpan & { readonly after: readonly [string, string] },
): Promise<{ readonly rows: readonly DayOfUsage[]; readonly next: readonly [string, string] | null }> {
  const days = (span.to.getTime() - span.from.getTime()) / DAY_MS;
  const size = Math.ceil(span.limit / days) + 1;
  const rows: DayOfUsage[] = [];
  let first = afterTenant;
  for (let read = 0; read < TENANTS_MAX; read += size) {
    const { rows: tenants } = await db.query<{ id: string }>(
      sql`SELECT id FROM tenants WHERE id >= ${first} AND (${tenantId}::text IS NULL OR id = ${tenantId})
        ORDER BY id LIMIT ${size + 1}`,
    );
    const ids = tenants.slice(0, size).map(({ id }) => id);
    const found = await readUsage(db, ids, { ...span, limit: size * days });
    rows.push(...found.filter((row) => row.tenant_id > afterTenant || row.day > afterDay));
    const last = rows[span.limit - 1];
    if (rows.length > span.limit && last !== undefined) {
      return { rows: rows.slice(0, span.limit), next: [last.tenant_id, last.day] };
    }
    const following = tenants[size];
    if (following === undefined) {
      return { rows, next: null };
    }
    first = following.id;
  }
  return { rows, next: [first, ""] };
}
