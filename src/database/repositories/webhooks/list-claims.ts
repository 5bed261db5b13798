/**
 * Claims of lists of one endpoint or tenant each: first attempts to slow endpoints, retries, and dead letters. Tenants are
 * served in turns, except for dead letters, for which nobody waits.
 */
import { idDay } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import { queryInTurn } from "#database/transaction.ts";
import { HELD_TENANTS } from "../tenants.ts";
import { chosenRows, CLAIMED, type Claimed, TENANTS_MAX, WAITING } from "./claims.ts";

/** A member of a list. The lists of a claim are numbered from 1. */
export interface Listed extends Claimed {
  readonly list: number;
}

/** A delivery with what {@link LAST_ATTEMPT} reads. */
interface Attempted extends Listed {
  /** Number of finished attempts in this cycle. */
  readonly attempt_count: number;
  /** Of the last attempt, if there was one. */
  readonly status: number | null;
  readonly error: string | null;
}

/** A delivery that continues in mid-cycle under a new carrier. */
export interface ClaimedRetry extends Attempted {
  readonly cycle_started_at: Date;
  readonly next_attempt_at: Date;
}

export interface ListsClaim {
  /** Carriers to assign, one per list. Their number limits the lists. */
  readonly carriers: readonly string[];
  /** Maximum number of deliveries per list. */
  readonly listMax: number;
  readonly worker: string;
  readonly now: Date;
}

/** Whether no list that is about to start has the delivery's id as its name. */
const NAMES_NO_LIST = "NOT EXISTS (SELECT FROM unstarted_lists l WHERE l.carrier = d.id)";

const LAST_ATTEMPT = "d.attempt_count, d.last_status AS status, d.last_error AS error";

/** Most deliveries that are read for lists. Each waiting tenant gets an equal share, of at least a list. */
const LISTED_MAX = 2_048;

/**
 * Returns SQL that writes the carriers `$1` into numbered rows: at most `$2` per list. `numbered` has the columns day, id,
 * list, n, and the length of its list. One alone is carried under its own id, by which people look for it.
 *
 * @param alone further condition for that
 */
function carryLists(alone: string): string {
  const rows = "numbered WHERE n <= $2 AND list <= cardinality($1::text[])";
  return `${chosenRows(["day", "id", "list", "length"], rows)}
      UPDATE deliveries d
      SET carrier = CASE WHEN chosen.length = 1 AND ${alone} THEN d.id ELSE ($1::text[])[chosen.list] END,
        claimed_at = $4, claimed_by = $5
      FROM chosen WHERE d.day = chosen.day AND d.id = chosen.id
      RETURNING ${CLAIMED}, chosen.list::int`;
}

/**
 * Returns SQL that numbers the lists of `candidates`, tenants in turns. Within a turn places are random, or the same
 * tenants would always get none.
 *
 * @param list the columns of `candidates` that the members of a list share, beside their tenant
 */
function numberedLists(list: string): string {
  return `lists AS (
        SELECT tenant_id, ${list}, row_number() OVER (ORDER BY turn, random()) AS list
        FROM (
          SELECT tenant_id, ${list}, row_number() OVER (PARTITION BY tenant_id ORDER BY min(id)) AS turn
          FROM candidates GROUP BY tenant_id, ${list}
        ) turns
      ), numbered AS (
        SELECT day, id, list, row_number() OVER (PARTITION BY list ORDER BY id) AS n, count(*) OVER (PARTITION BY list) AS length
        FROM candidates JOIN lists USING (tenant_id, ${list})
      )`;
}

export interface EndpointsClaim extends ListsClaim {
  readonly endpointIds: readonly string[];
  /** Endpoints for which fewer deliveries wait share lists with others of their tenant. */
  readonly sharedBelow: number;
}

/** Claims first attempts to certain endpoints: lists of one endpoint each, or shared ones, tenants in turns. */
export async function claimForEndpoints(db: Queryable, claim: EndpointsClaim): Promise<Listed[]> {
  const { rows } = await db.query<Listed>({
    name: "claim-for-endpoints",
    text: `WITH waiting AS MATERIALIZED (
        SELECT DISTINCT tenant_id FROM endpoints WHERE id = ANY ($3::text[]) AND tenant_id NOT IN ${HELD_TENANTS}
      ), mine AS MATERIALIZED (
        SELECT waiting.tenant_id, mine.* FROM waiting CROSS JOIN LATERAL (
          SELECT d.day, d.id, d.endpoint_id FROM deliveries d
          WHERE ${WAITING} AND d.tenant_id = waiting.tenant_id AND d.endpoint_id = ANY ($3::text[])
          ORDER BY d.id LIMIT (SELECT greatest(${LISTED_MAX} / count(*), $2::int) FROM waiting)
          FOR UPDATE SKIP LOCKED
        ) mine
      ), candidates AS (
        SELECT *, (row_number() OVER (PARTITION BY tenant_id, own ORDER BY id) - 1) / $2 AS part FROM (
          SELECT *, CASE WHEN count(*) OVER (PARTITION BY endpoint_id) < $6 THEN '' ELSE endpoint_id END AS own FROM mine
        ) owned
      ), ${numberedLists("own, part")}, ${carryLists("d.epoch = 1")}`,
    values: [claim.carriers, claim.listMax, claim.endpointIds, claim.now, claim.worker, claim.sharedBelow],
  });
  return rows;
}

/** Returns the condition of a retry that waits for a list: of one whose last attempt timed out, or of the others. */
export function waitingRetry(timedOut: boolean): string {
  return timedOut
    ? "carrier IS NULL AND state = 'RETRYING' AND last_error = 'timeout'"
    : "carrier IS NULL AND state = 'RETRYING' AND last_error IS DISTINCT FROM 'timeout'";
}

/**
 * Whether {@link claimRetries} may find deliveries. Costs a tenth of it, and most rounds find none.
 *
 * @param timedOut like the claim's
 */
export async function hasWaitingRetries(db: Queryable, timedOut: boolean): Promise<boolean> {
  const { rows } = await db.query<{ waits: boolean }>({
    name: timedOut ? "has-timed-out-retries" : "has-waiting-retries",
    // With EXISTS, the planner could read all deliveries, because it expects to find one at once.
    text: `SELECT (SELECT tenant_id FROM deliveries WHERE ${waitingRetry(timedOut)} ORDER BY tenant_id LIMIT 1) IS NOT NULL AS waits`,
  });
  return rows[0]?.waits === true;
}

export interface RetryClaim extends ListsClaim {
  /** Maximum difference of the cycles' starts within a list, in seconds. */
  readonly spreadSeconds: number;
  /** Claims only for tenants after this one, so that all tenants get their turn. */
  readonly afterTenant: string;
  /** Whether to claim those whose last attempt timed out, or all others. */
  readonly timedOut: boolean;
}

/**
 * Claims deliveries in mid-cycle that wait for a list of their endpoint: those that left a mixed list after a failure,
 * and those that the reconciler took from a carrier that is gone. Tenants are served in turns.
 *
 * @returns the claimed deliveries, and the tenant after which to continue if there are more tenants than one claim covers
 */
export async function claimRetries(
  db: Queryable,
  claim: RetryClaim,
): Promise<{ readonly claimed: ClaimedRetry[]; readonly nextTenant: string }> {
  const waits = waitingRetry(claim.timedOut);
  const nextTenant = (after: string): string =>
    `(SELECT d.tenant_id FROM deliveries d WHERE ${waits} AND d.tenant_id > ${after} ORDER BY d.tenant_id LIMIT 1)`;
  const { rows } = await db.query<ClaimedRetry & { readonly last_tenant: string }>({
    name: claim.timedOut ? "claim-timed-out-retries" : "claim-retries",
    text: `WITH RECURSIVE seen(tenant_id, n) AS (
        SELECT ${nextTenant("$6::text")}, 1
        UNION ALL
        SELECT ${nextTenant("seen.tenant_id")}, n + 1 FROM seen
        WHERE seen.tenant_id IS NOT NULL AND n < ${TENANTS_MAX}
      ), waiting AS MATERIALIZED (
        SELECT tenant_id FROM seen WHERE tenant_id IS NOT NULL AND tenant_id NOT IN ${HELD_TENANTS}
      ), candidates AS MATERIALIZED (
        SELECT waiting.tenant_id, mine.*, floor(extract(epoch FROM coalesce(mine.cycle_started_at, 'epoch')) / $3) AS cycle_start
        FROM waiting CROSS JOIN LATERAL (
          SELECT d.day, d.id, d.endpoint_id, d.cycle_started_at, d.attempt_count FROM deliveries d
          WHERE ${waits} AND d.tenant_id = waiting.tenant_id
          ORDER BY d.next_attempt_at LIMIT (SELECT greatest(${LISTED_MAX} / count(*), $2::int) FROM waiting)
          FOR UPDATE SKIP LOCKED
        ) mine
      ), ${numberedLists("endpoint_id, attempt_count, cycle_start")}, ${carryLists(NAMES_NO_LIST)}, ${LAST_ATTEMPT}, d.cycle_started_at, d.next_attempt_at,
        (SELECT coalesce(max(tenant_id), '') FROM seen WHERE n = ${TENANTS_MAX}) AS last_tenant`,
    values: [claim.carriers, claim.listMax, claim.spreadSeconds, claim.now, claim.worker, claim.afterTenant],
  });
  return {
    claimed: rows.map(({ last_tenant: _last, ...row }) => row),
    nextTenant: rows[0]?.last_tenant ?? "",
  };
}

/** Gives a delivery that was claimed under its own id another carrier. @returns false if it has been moved meanwhile */
export async function renameCarrier(
  db: Queryable,
  { id, carrier }: { readonly id: string; readonly carrier: string },
): Promise<boolean> {
  const { rowCount } = await db.query({
    name: "rename-carrier",
    text: "UPDATE deliveries SET carrier = $3 WHERE day = $1 AND id = $2 AND carrier = $2",
    values: [idDay(id), id, carrier],
  });
  return rowCount === 1;
}

/** A dead letter with a new carrier. */
export interface ClaimedLetter extends Attempted {
  readonly expires_at: Date;
}

const WAITING_LETTER = "d.carrier IS NULL AND d.state = 'DEAD_LETTERED'";

export interface LettersClaim extends ListsClaim {
  /** Lists of these endpoints are claimed if they are full, or if one of their dead letters died before an instant. */
  readonly recentEndpoints: readonly string[];
  readonly diedBefore: Date;
  /** Claims only for endpoints after this one, so that all endpoints get their turn. */
  readonly afterEndpoint: string;
}

/**
 * Claims dead letters without a carrier: of endpoints that were disabled before, those that left a list of retries, and
 * those that lost their carrier.
 *
 * @returns the claimed dead letters, and the endpoint after which to continue if there are more than lists
 */
export async function claimLetters(
  db: Queryable,
  { carriers, listMax, worker, now, recentEndpoints, diedBefore, afterEndpoint }: LettersClaim,
): Promise<{ readonly claimed: ClaimedLetter[]; readonly nextEndpoint: string }> {
  // The carrier is null in all of them, and the index begins with it.
  const next = (after: string): string =>
    `(SELECT d.endpoint_id FROM deliveries d WHERE ${WAITING_LETTER} AND d.endpoint_id > ${after}
      ORDER BY d.carrier, d.endpoint_id LIMIT 1)`;
  const full = "candidates WHERE length >= $2::int OR died_at < $5 OR endpoint_id <> ALL ($7::text[])";
  const { rows } = await queryInTurn<Omit<ClaimedLetter, "delivery_id"> & ClaimedRow>(db, {
    name: "claim-letters",
    text: `WITH RECURSIVE seen(endpoint_id, list) AS (
        SELECT ${next("$6::text")}, 1
        UNION ALL
        SELECT ${next("seen.endpoint_id")}, list + 1 FROM seen
        WHERE seen.endpoint_id IS NOT NULL AND list < cardinality($1::text[])
      ), waiting AS MATERIALIZED (
        SELECT endpoint_id, list FROM seen WHERE endpoint_id IS NOT NULL
      ), candidates AS MATERIALIZED (
        SELECT waiting.*, mine.*, count(*) OVER mates AS length, min(mine.dead_lettered_at) OVER mates AS died_at
        FROM waiting CROSS JOIN LATERAL (
          SELECT d.day, d.id, d.dead_lettered_at FROM deliveries d
          WHERE ${WAITING_LETTER} AND d.endpoint_id = waiting.endpoint_id
          ORDER BY d.carrier, d.id LIMIT (SELECT $2::int) FOR UPDATE SKIP LOCKED
        ) mine WINDOW mates AS (PARTITION BY waiting.list)
      ), ${chosenRows(["day", "id", "list", "length"], full)}, claimed AS (
        UPDATE deliveries d
        SET carrier = CASE WHEN chosen.length = 1 AND ${NAMES_NO_LIST} THEN d.id ELSE ($1::text[])[chosen.list] END,
          claimed_at = $3, claimed_by = $4
        FROM chosen WHERE d.day = chosen.day AND d.id = chosen.id
        RETURNING ${CLAIMED}, chosen.list, ${LAST_ATTEMPT}, d.expires_at
      )
      SELECT claimed.*, last.endpoint_id AS last_endpoint
      FROM (SELECT coalesce(max(endpoint_id), '') AS endpoint_id FROM waiting WHERE list = cardinality($1::text[])) last
      LEFT JOIN claimed ON true`,
    values: [carriers, listMax, now, worker, diedBefore, afterEndpoint, recentEndpoints],
  });
  return {
    claimed: rows.flatMap(({ last_endpoint: _last, delivery_id, ...row }) =>
      delivery_id === null ? [] : [{ delivery_id, ...row }],
    ),
    nextEndpoint: rows[0]?.last_endpoint ?? "",
  };
}

interface ClaimedRow {
  readonly delivery_id: string | null;
  readonly last_endpoint: string;
}
