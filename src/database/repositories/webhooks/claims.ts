/**
 * Claims: deliveries get their carrier, first of all in the database. Concurrent workers skip locked rows. Every claim
 * is one statement, so after a crash a delivery is either waiting or claimed.
 *
 * The claim of first attempts does not wait for the disk (decision 10). A crash of PostgreSQL may undo it, and the
 * deliveries wait again.
 */
import { putBounded } from "#domain/bounded-map.ts";
import { idDay } from "#domain/ids.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import type { Row } from "#database/rows.ts";
import { lateral, sql } from "#database/sql.ts";
import { queryInOrder } from "#database/transaction.ts";
import { joinSecrets, withSecrets } from "../stored-secrets.ts";
import { HELD_TENANTS } from "../tenants.ts";
import { dateLiteral, type LoadedColumns, type LoadedDelivery, loadedColumns } from "./attempts.ts";
import { notifyOutbox } from "./events.ts";
import { NOTE_LISTS, NOTED_BEFORE } from "./handed-deliveries.ts";

/** A delivery with a carrier, whose workflow must be started. */
export interface Claimed extends Row<"deliveries", "tenant_id" | "endpoint_id" | "epoch"> {
  readonly delivery_id: string;
  readonly carrier: string;
}

/** The columns of a {@link Claimed}. */
export const CLAIMED = "d.id AS delivery_id, d.tenant_id, d.endpoint_id, d.carrier, d.epoch";

/** Maximum number of tenants per claim. Others wait for the next claim. */
export const TENANTS_MAX = 64;
/** Condition of a delivery `d` in the outbox. */
export const WAITING = "d.carrier IS NULL AND d.state = 'QUEUED'";
/**
 * The same about a row found by its key. The planner must not match it with the index of {@link WAITING}: statistics
 * are mostly taken while nothing waits, and it would then read the whole outbox for each claim.
 */
const STILL_WAITING = "coalesce(d.carrier, '') = '' AND d.state || '' = 'QUEUED'";

/**
 * Returns SQL that names `chosen`: columns of some rows, through arrays. PostgreSQL expects ten members of an array, so it
 * finds the delivery of each by its key. Statistics of many waiting deliveries would let it expect many rows, and read
 * every stored delivery to join them.
 */
export function chosenRows(columns: readonly string[], rows: string): string {
  return `chosen AS MATERIALIZED (
        SELECT c.* FROM (SELECT ${columns.map((column) => `array_agg(${column}) AS ${column}`).join(", ")} FROM ${rows}) of
        CROSS JOIN LATERAL unnest(${columns.map((column) => `of.${column}`).join(", ")}) AS c(${columns.join(", ")})
      )`;
}

/** A statement per pair of days, or day, and few are in use. */
const CLAIM_TEXTS_MAX = 100;

export interface FirstClaim {
  /** Days of the deliveries, `YYYY-MM-DD`, in order: the latest two, or one of {@link findOtherDays}. */
  readonly days: readonly string[];
  /** Claims nothing if fewer deliveries wait. */
  readonly atLeast: number;
  readonly limit: number;
  readonly carrier: string;
  /** Whether the carrier is the delivery's own id if one alone is claimed, for the first time. */
  readonly alone: boolean;
  /** Endpoints to be left for {@link claimForEndpoints}. */
  readonly exceptEndpoints: readonly string[];
  /** Tenants to be left for a later claim. */
  readonly exceptTenants: readonly string[];
  /** Claims only for tenants after this one, so that all tenants get their turn. */
  readonly afterTenant: string;
  /** Claims only deliveries after this one; empty for any. A claim reads none before it. */
  readonly afterDelivery: string;
  /** The worker that claims. */
  readonly worker: string;
  readonly now: Date;
  /** Whether to load the events' traces, too. */
  readonly traced?: boolean;
}

/** A claimed delivery with all data for its first attempt. */
export interface ClaimedFirst extends Claimed {
  /** Undefined if a part of it is missing. */
  readonly loaded: LoadedDelivery | undefined;
}

/** A tenant may take up to this multiple of its share if others leave room in the list. */
const ROOM = 4;

interface LoadedFirst extends LoadedColumns, Claimed {
  /** Whether its event, endpoint and tenant exist. */
  readonly whole: boolean;
}

interface Covered {
  readonly tenants: number;
  /** Null without tenants. */
  readonly last_tenant: string | null;
  /** Null without candidates. */
  readonly more: boolean | null;
}

type FirstRow = Covered & (LoadedFirst | { readonly delivery_id: null });

const claimTexts = new Map<string, string>();

/** Returns the text of a claim. It changes once a day, so few are kept. */
function cachedText(key: string, compose: () => string): string {
  const text = claimTexts.get(key) ?? compose();
  putBounded(claimTexts, key, text, CLAIM_TEXTS_MAX);
  return text;
}

/**
 * The days stand in the text, and each query of the waiting deliveries reads one of them, so it follows an index that is
 * in order. Over several partitions the planner prefers to sort what it believes to be one row, which is every waiting
 * delivery of a tenant. Joins name the first day only: with more, the planner could read a whole day that it believes to
 * be empty. A parameter would make it plan every partition, which takes 70 ms, whenever one gets new statistics.
 *
 * A tenant's deliveries after an id are a range of the index that is meant, and of no other: the latest of all tenants
 * would be one of the primary key.
 */
function composeClaimFirst(days: readonly string[], traced: boolean): string {
  const literals = days.map(dateLiteral);
  const [first = ""] = literals;
  const nextTenant = (after: string): string =>
    `least(${literals
      .map(
        (day) => `(SELECT d.tenant_id FROM deliveries d WHERE d.day = ${day} AND ${WAITING}
          AND d.tenant_id > ${after} ORDER BY d.tenant_id LIMIT 1)`,
      )
      .join(", ")})`;
  const mine = literals
    .map(
      (day) => `(SELECT d.day, d.id FROM deliveries d
            WHERE d.day = ${day} AND ${WAITING} AND (d.tenant_id, d.id) > (waiting.tenant_id, $10::text)
              AND d.tenant_id <= waiting.tenant_id AND d.endpoint_id <> ALL ($5::text[])
            ORDER BY d.tenant_id, d.id LIMIT (SELECT size FROM share))`,
    )
    .join(" UNION ALL ");
  return `WITH RECURSIVE seen(tenant_id) AS (
        SELECT ${nextTenant("$7::text")}
        UNION ALL
        SELECT ${nextTenant("seen.tenant_id")} FROM seen WHERE seen.tenant_id IS NOT NULL
      ), waiting AS MATERIALIZED (
        SELECT tenant_id FROM seen
        WHERE tenant_id IS NOT NULL AND tenant_id NOT IN ${HELD_TENANTS} AND tenant_id <> ALL ($9::text[])
        LIMIT ${TENANTS_MAX}
      ), share AS MATERIALIZED (
        SELECT count(*)::int AS tenants, max(tenant_id) AS last_tenant,
          least($8::int, ceil(${ROOM} * $8::float8 / greatest(count(*), 1)))::int AS size
        FROM waiting
      ), candidates AS MATERIALIZED (
        SELECT waiting.tenant_id, mine.day, mine.id,
          row_number() OVER (PARTITION BY waiting.tenant_id ORDER BY mine.id) AS turn
        FROM waiting CROSS JOIN LATERAL (
          SELECT * FROM (${mine}) each_day ORDER BY id LIMIT (SELECT size FROM share)
        ) mine
      ), rest AS MATERIALIZED (
        -- Apart, because PostgreSQL would count the candidates for each claimed row.
        SELECT count(*) > $8::int OR bool_or(turn >= share.size) AS more FROM candidates CROSS JOIN share
      ), picked AS MATERIALIZED (
        -- In the last turn places are random, or the same tenants would always get none.
        SELECT day, id FROM candidates ORDER BY turn, random() LIMIT $8::int
      ), locked AS MATERIALIZED (
        SELECT d.day, d.id FROM picked JOIN deliveries d ON d.day = picked.day AND d.id = picked.id
        WHERE d.day >= ${first} AND ${STILL_WAITING} FOR UPDATE OF d SKIP LOCKED
      ), ${composeClaim({
        first,
        rows: `d.day >= ${first}`,
        traced,
        columns: "share.tenants, share.last_tenant, rest.more",
        // One row if nothing was claimed, so that the next claim goes on after these tenants.
        from: "share CROSS JOIN rest LEFT JOIN claimed d ON true",
      })}`;
}

/** What the claims of first attempts have in common, in the order of their first parameters. */
type CommonClaim = Pick<FirstClaim, "carrier" | "alone" | "exceptEndpoints" | "worker" | "now" | "traced">;

function commonValues(
  { alone, carrier, worker, now, exceptEndpoints }: CommonClaim,
  atLeast: number,
): unknown[] {
  return [alone, carrier, worker, now, exceptEndpoints, atLeast];
}

/**
 * Returns the rest of a claim of first attempts, which writes and returns the rows of `locked`.
 *
 * @param first SQL of their first day
 * @param rows condition of these rows in `deliveries`. Without it, the planner may read a whole day
 */
function composeClaim({
  first,
  rows,
  traced,
  columns = "",
  from = "claimed d",
}: {
  readonly first: string;
  readonly rows: string;
  readonly traced: boolean;
  readonly columns?: string;
  readonly from?: string;
}): string {
  return `counted AS (
        SELECT count(*) AS n, set_config('synchronous_commit', 'off', true) FROM locked
      ), claimed AS (
        UPDATE deliveries d
        SET carrier = CASE WHEN $1::boolean AND counted.n = 1 AND d.epoch = 1 THEN d.id ELSE $2::text END,
          claimed_at = $4::timestamptz, claimed_by = $3::text
        FROM locked, counted
        WHERE d.day = locked.day AND d.id = locked.id AND ${rows} AND counted.n >= $6::int
        RETURNING d.day, d.id, d.tenant_id, d.endpoint_id, d.event_id, d.event_type, d.state, d.cycle, d.next_attempt_at,
          d.carrier, d.epoch, d.claimed_by
      ), noted AS (
        ${NOTE_LISTS}
        SELECT carrier, $3::text, min(day), max(day), min(id), max(id), $4::timestamptz FROM claimed GROUP BY carrier
        ${NOTED_BEFORE}
      )
      SELECT d.carrier, d.epoch, ${loadedColumns(traced)},
        e.id IS NOT NULL AND p.id IS NOT NULL AND t.id IS NOT NULL AS whole${columns && `, ${columns}`}
      FROM ${from}
      LEFT JOIN ${lateral("events", "e", `day = d.day AND id = d.event_id AND day >= ${first}`)} ON true
      LEFT JOIN ${lateral("endpoints", "p", "id = d.endpoint_id")} ON true
      LEFT JOIN ${lateral("tenants", "t", "id = d.tenant_id")} ON true
      ${joinSecrets("d.endpoint_id")}
      LEFT JOIN ${lateral("attempts", "a", `day = d.day AND delivery_id = d.id AND cycle = d.cycle AND attempt = 1 AND day >= ${first}`)} ON true`;
}

/** What a claim of first attempts found. */
export interface ClaimOfFirst {
  readonly claimed: readonly ClaimedFirst[];
  /** Whether more of these tenants may wait. */
  readonly more: boolean;
  /** The tenant after which to continue, if more tenants wait than one claim covers; otherwise empty. */
  readonly nextTenant: string;
}

/**
 * Claims first attempts as one list: the oldest ones of every waiting tenant, in turns. Each tenant gets a fair share,
 * and the list is full if enough deliveries wait. The list is noted until {@link removeUnstartedLists}.
 */
export async function claimFirst(db: Queryable, claim: FirstClaim): Promise<ClaimOfFirst> {
  const { days, traced = false } = claim;
  const { rows } = await db.query<FirstRow>({
    name: `claim-first-${days.join("-")}${traced ? "-traced" : ""}`,
    text: cachedText(`${days.join(" ")} ${traced}`, () => composeClaimFirst(days, traced)),
    values: [
      ...commonValues(claim, claim.atLeast),
      claim.afterTenant,
      claim.limit,
      claim.exceptTenants,
      claim.afterDelivery,
    ],
  });
  const [covered] = rows;
  const nextTenant = covered?.tenants === TENANTS_MAX ? (covered.last_tenant ?? "") : "";
  return {
    claimed: rows.flatMap(({ tenants: _tenants, last_tenant: _last, more: _more, ...row }) =>
      row.delivery_id === null ? [] : [toClaimedFirst(row)],
    ),
    more: covered?.more === true,
    nextTenant,
  };
}

export interface NamedClaim extends CommonClaim {
  /** Deliveries of one day. */
  readonly ids: readonly string[];
}

/**
 * Claims first attempts that a notification named, for the same list as {@link claimFirst}. It reads only these rows, so
 * it costs less. Skips deliveries that no longer wait, and those of held tenants.
 */
export async function claimNamed(
  db: Queryable,
  { ids, ...claim }: NamedClaim,
): Promise<readonly ClaimedFirst[]> {
  const { traced = false } = claim;
  const [id = ""] = ids;
  const day = idDay(id);
  const { rows } = await db.query<LoadedFirst>({
    name: `claim-named-${day}${traced ? "-traced" : ""}`,
    text: cachedText(`named ${day} ${traced}`, () => composeClaimNamed(dateLiteral(day), traced)),
    values: [...commonValues(claim, 1), ids],
  });
  return rows.map(toClaimedFirst);
}

function composeClaimNamed(day: string, traced: boolean): string {
  const rows = `d.day = ${day} AND d.id = ANY ($7::text[])`;
  return `WITH locked AS MATERIALIZED (
        SELECT d.day, d.id FROM deliveries d WHERE ${rows} AND ${STILL_WAITING}
          AND d.endpoint_id <> ALL ($5::text[]) AND d.tenant_id NOT IN ${HELD_TENANTS}
        FOR UPDATE OF d SKIP LOCKED
      ), ${composeClaim({ first: day, rows, traced })}`;
}

function toClaimedFirst({ carrier, epoch, whole, ...row }: LoadedFirst): ClaimedFirst {
  const { delivery_id, tenant_id, endpoint_id } = row;
  return {
    delivery_id,
    tenant_id,
    endpoint_id,
    carrier,
    epoch,
    loaded: whole ? withSecrets(row) : undefined,
  };
}

/**
 * Returns the other days of which deliveries wait, in order: mostly replayed ones, rarely those that a wrong clock has
 * put into the future.
 *
 * @param latest the latest two days
 * @param count how many earlier days to look at one by one, which is cheap however many deliveries wait
 */
export async function findOtherDays(
  db: Queryable,
  [yesterday, today]: readonly [string, string],
  count: number,
): Promise<string[]> {
  const { rows } = await db.query<{ day: string }>({
    name: `find-other-days-${today}-${count}`,
    text: cachedText(`other ${today} ${count}`, () =>
      composeOtherDays(dateLiteral(yesterday), dateLiteral(today), count),
    ),
  });
  return rows.map(({ day }) => day);
}

/** Deliveries of the other days that are read at a time: their days first, and the rest of the days after these. */
const FAR_MAX = 1_000;

/**
 * The days stand in the text, so that no plan includes the latest two. Of those after today, the first is named: the
 * planner does not know that no day lies between. LIMIT keeps the planner from joining the days with
 * all waiting deliveries: with a million of them, that took a second.
 */
function composeOtherDays(yesterday: string, today: string, count: number): string {
  const some = `ORDER BY d.tenant_id, d.id LIMIT ${FAR_MAX}`;
  return `SELECT earlier.day::date AS day
    FROM generate_series(${yesterday} - ${count}, ${yesterday} - 1, interval '1 day') AS earlier(day)
    CROSS JOIN LATERAL (
      SELECT FROM deliveries d WHERE d.day = earlier.day::date AND d.day < ${yesterday} AND ${WAITING}
      ORDER BY d.tenant_id, d.id LIMIT 1) one
    UNION
    (SELECT d.day FROM deliveries d WHERE d.day >= ${today} + 1 AND ${WAITING} ${some})
    UNION
    (SELECT d.day FROM deliveries d WHERE d.day < ${yesterday} - ${count} AND ${WAITING} ${some})
    ORDER BY day`;
}

/** A list whose workflow may not have been started, with the members that it still has. */
export interface UnstartedList {
  readonly carrier: string;
  readonly members: readonly Claimed[];
}

export interface UnstartedQuery {
  /** The worker that asks. */
  readonly worker: string;
  /** Lists that this worker is about to start. */
  readonly except: readonly string[];
  /** Lists opened after this instant may belong to a worker that has not sent its first heartbeat. */
  readonly openedBefore: Date;
  readonly limit: number;
}

/** Finds lists to start: of workers that have ended, and those that this worker gave up. */
export async function findUnstartedLists(
  db: Queryable,
  { worker, except, openedBefore, limit }: UnstartedQuery,
): Promise<UnstartedList[]> {
  const { rows } = await db.query<Omit<Claimed, "delivery_id"> & { readonly delivery_id: string | null }>({
    name: "find-unstarted-lists",
    ...sql`SELECT l.carrier, d.id AS delivery_id, d.tenant_id, d.endpoint_id, d.epoch
      FROM (
        SELECT * FROM unstarted_lists
        WHERE opened_at < ${openedBefore} AND CASE WHEN worker = ${worker} THEN carrier <> ALL (${except}::text[])
          ELSE NOT EXISTS (SELECT FROM workers w WHERE w.id = unstarted_lists.worker) END
        ORDER BY opened_at LIMIT ${limit}
      ) l
      LEFT JOIN LATERAL (
        SELECT * FROM deliveries
        WHERE day BETWEEN l.first_day AND l.last_day AND id BETWEEN l.first_id AND l.last_id
          AND carrier = l.carrier
      ) d ON true
      ORDER BY l.carrier, d.id`,
  });
  const lists = new Map<string, Claimed[]>();
  for (const { delivery_id, ...row } of rows) {
    const members = lists.get(row.carrier) ?? [];
    lists.set(row.carrier, members);
    if (delivery_id !== null) {
      members.push({ delivery_id, ...row });
    }
  }
  return [...lists].map(([carrier, members]) => ({ carrier, members }));
}

/** Forgets lists whose workflow has been started, or that have no members. Does not wait for the disk. */
export async function removeUnstartedLists(db: Queryable, carriers: readonly string[]): Promise<void> {
  await db.query({
    name: "remove-unstarted-lists",
    ...sql`WITH hurry AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
      DELETE FROM unstarted_lists USING hurry WHERE carrier = ANY (${carriers}::text[])`,
  });
}

/**
 * Claims deliveries again that were claimed before `before` but have no outcome: their workflow may never have been
 * started. They count as claimed `now`, so they return only after the same wait. If another sweep holds a member of a
 * carrier, that carrier is skipped: a list started without all of its members could never get the rest.
 */
export async function reclaimUnstarted(
  pool: Pool,
  { before, now, limit }: { readonly before: Date; readonly now: Date; readonly limit: number },
): Promise<Claimed[]> {
  const statement = {
    name: "reclaim-unstarted",
    text: `WITH carriers AS MATERIALIZED (
        SELECT DISTINCT carrier FROM (
          SELECT carrier FROM deliveries WHERE carrier IS NOT NULL AND state = 'QUEUED' AND claimed_at < $1
            AND NOT EXISTS (SELECT FROM unstarted_lists l WHERE l.carrier = deliveries.carrier)
          ORDER BY claimed_at LIMIT $3
        ) oldest
      ), members AS MATERIALIZED (
        SELECT d.carrier, count(*) AS n FROM carriers JOIN deliveries d ON d.carrier = carriers.carrier
        WHERE d.state = 'QUEUED' AND d.claimed_at < $1 GROUP BY d.carrier
      ), picked AS MATERIALIZED (
        SELECT d.day, d.id, d.carrier FROM carriers JOIN deliveries d ON d.carrier = carriers.carrier
        WHERE d.state = 'QUEUED' AND d.claimed_at < $1 FOR UPDATE OF d SKIP LOCKED
      ), whole AS (
        SELECT members.carrier FROM members JOIN picked ON picked.carrier = members.carrier
        GROUP BY members.carrier, members.n HAVING count(*) = members.n
      )
      UPDATE deliveries d SET claimed_at = $2
      FROM picked JOIN whole ON whole.carrier = picked.carrier WHERE d.day = picked.day AND d.id = picked.id
      RETURNING ${CLAIMED}`,
    values: [before, now, limit],
  };
  return await queryInOrder<Claimed>(pool, statement);
}

/** A first attempt with its carrier's fence. */
export interface AdoptedDelivery {
  readonly deliveryId: string;
  readonly carrier: string;
  readonly epoch: number;
}

/**
 * Makes this worker the holder of first attempts that another worker claimed, because their workflow now runs here. If
 * the holder dies, its claims are returned, so this must precede sending. Like a claim, it does not wait for the disk.
 *
 * @returns for each delivery whether this worker now holds it; false if its carrier has lost it
 */
export async function adoptClaims(
  db: Queryable,
  deliveries: readonly AdoptedDelivery[],
  worker: string,
): Promise<boolean[]> {
  const { rows } = await db.query<{ id: string }>({
    name: "adopt-claims",
    // No index of what waits fits the condition of the state, so the key finds the row (decision 40).
    ...sql`WITH hurry AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
      UPDATE deliveries d SET claimed_by = ${worker}
      FROM unnest(
          ${deliveries.map(({ deliveryId }) => idDay(deliveryId))}::date[],
          ${deliveries.map(({ deliveryId }) => deliveryId)}::text[],
          ${deliveries.map(({ carrier }) => carrier)}::text[],
          ${deliveries.map(({ epoch }) => epoch)}::int[]) AS m(day, id, carrier, epoch), hurry
      WHERE d.day = m.day AND d.id = m.id AND d.carrier = m.carrier AND d.epoch = m.epoch AND d.state || '' = 'QUEUED'
      RETURNING d.id`,
  });
  const adopted = new Set(rows.map(({ id }) => id));
  return deliveries.map(({ deliveryId }) => adopted.has(deliveryId));
}

export interface HandBack {
  /** Workers that have ended or are about to end. */
  readonly workers: readonly string[];
  /** Deliveries with a request under way. */
  readonly except: readonly string[];
  readonly limit: number;
}

/**
 * Returns claims of first attempts: the deliveries wait in the outbox again, with a new epoch, and live workers are
 * notified. A workflow that was started for them finds them moved. Attempts that wait for their endpoint's rate limit
 * stay, because a timer of Temporal holds them, not a worker.
 *
 * @returns the number of returned claims; if it is below `limit`, there are no more
 */
export async function handBackClaims(db: Queryable, { workers, except, limit }: HandBack): Promise<number> {
  const { rows } = await db.query<{ n: number }>({
    name: "hand-back-claims",
    text: `WITH held AS MATERIALIZED (
        SELECT day, id FROM deliveries
        WHERE carrier IS NOT NULL AND state = 'QUEUED' AND claimed_by = ANY ($1::text[]) AND id <> ALL ($2::text[])
          AND claimed_at <= now() + interval '1 second'
        LIMIT $3 FOR UPDATE SKIP LOCKED
      ), freed AS (
        UPDATE deliveries d SET carrier = NULL, epoch = d.epoch + 1, claimed_at = NULL, claimed_by = NULL
        FROM held WHERE d.day = held.day AND d.id = held.id RETURNING d.id
      ), counted AS (
        SELECT count(*)::int AS n FROM freed
      )
      SELECT n, CASE WHEN n > 0 THEN ${notifyOutbox("n")} END FROM counted`,
    values: [workers, except, limit],
  });
  return rows[0]?.n ?? 0;
}
