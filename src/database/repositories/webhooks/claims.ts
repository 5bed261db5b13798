/**
 * Claims: deliveries get their carrier, first of all in the database. Concurrent workers skip locked rows. Every claim
 * is one statement, so after a crash a delivery is either waiting or claimed.
 *
 * The claim of first attempts does not wait for the disk (decision 0010). A crash of PostgreSQL may undo it, and the
 * deliveries wait again.
 */
import { idDay } from "../../../domain/ids.ts";
import type { Queryable } from "../../pool.ts";
import { raw, sql } from "../../sql.ts";
import { OUTBOX_CHANNEL } from "./events.ts";
import { HELD_TENANTS } from "../tenants.ts";

/** A delivery with a carrier, whose workflow must be started. */
export interface Claimed {
  readonly deliveryId: string;
  readonly tenantId: string;
  readonly endpointId: string;
  readonly carrier: string;
  readonly epoch: number;
}

/** A delivery that continues in mid-cycle under a new carrier. */
export interface ClaimedRetry extends Claimed {
  /** Number of finished attempts in this cycle. */
  readonly attemptCount: number;
  readonly cycleStartedAt: Date;
  readonly nextAttemptAt: Date;
}

/** The columns of a {@link Claimed}. */
const CLAIMED =
  'd.id AS "deliveryId", d.tenant_id AS "tenantId", d.endpoint_id AS "endpointId", d.carrier, d.epoch';

/** Maximum number of tenants per claim. Others wait for the next claim. */
const TENANTS_MAX = 64;
const WAITING = "carrier IS NULL AND state = 'QUEUED'";

export interface FirstClaim {
  /** Claims nothing if fewer deliveries wait. */
  readonly atLeast: number;
  readonly limit: number;
  /** Carrier of the claimed deliveries. A delivery that is claimed alone and for the first time is its own carrier. */
  readonly carrier: string;
  /** Endpoints to be left for {@link claimForEndpoints}. */
  readonly exceptEndpoints: readonly string[];
  /** Claims only for tenants after this one, so that all tenants get their turn. */
  readonly afterTenant: string;
  /** The worker that claims. */
  readonly worker: string;
  readonly now: Date;
}

/** A tenant may take up to this multiple of its share if others leave room in the list. */
const ROOM = 4;

/**
 * Claims first attempts as one list: the oldest ones of every waiting tenant, in turns. Each tenant gets a fair share,
 * and the list is full if enough deliveries wait.
 *
 * @returns the claimed deliveries; whether more are known to wait; and the tenant after which to continue if there are
 *   more tenants than one claim covers
 */
export async function claimFirst(
  db: Queryable,
  claim: FirstClaim,
): Promise<{ readonly claimed: Claimed[]; readonly more: boolean; readonly nextTenant: string }> {
  const { rows } = await db.query<Claimed & { tenants: number; last_tenant: string; more: boolean }>({
    name: "claim-first",
    ...sql`WITH RECURSIVE seen(tenant_id) AS (
        (SELECT tenant_id FROM deliveries WHERE ${raw(WAITING)} AND tenant_id > ${claim.afterTenant} ORDER BY tenant_id LIMIT 1)
        UNION ALL
        SELECT (SELECT d.tenant_id FROM deliveries d WHERE d.carrier IS NULL AND d.state = 'QUEUED'
          AND d.tenant_id > seen.tenant_id ORDER BY d.tenant_id LIMIT 1)
        FROM seen WHERE seen.tenant_id IS NOT NULL
      ), tenants AS MATERIALIZED (
        SELECT tenant_id FROM seen WHERE tenant_id IS NOT NULL AND tenant_id NOT IN ${raw(HELD_TENANTS)} LIMIT ${raw(String(TENANTS_MAX))}
      ), share AS MATERIALIZED (
        SELECT count(*)::int AS tenants, max(tenant_id) AS last_tenant,
          least(${claim.limit}, ceil(${raw(String(ROOM))} * ${claim.limit}::float8 / greatest(count(*), 1)))::int AS size
        FROM tenants
      ), candidates AS MATERIALIZED (
        SELECT tenants.tenant_id, mine.day, mine.id,
          row_number() OVER (PARTITION BY tenants.tenant_id ORDER BY mine.id) AS turn
        FROM tenants CROSS JOIN LATERAL (
          SELECT d.day, d.id FROM deliveries d
          WHERE d.carrier IS NULL AND d.state = 'QUEUED' AND d.tenant_id = tenants.tenant_id
            AND d.endpoint_id <> ALL (${claim.exceptEndpoints}::text[])
          ORDER BY d.id LIMIT (SELECT size FROM share)
        ) mine
      ), picked AS MATERIALIZED (
        -- In the last turn places are random, or the same tenants would always get none.
        SELECT day, id FROM candidates ORDER BY turn, random() LIMIT ${claim.limit}
      ), locked AS MATERIALIZED (
        SELECT d.day, d.id FROM picked JOIN deliveries d ON d.day = picked.day AND d.id = picked.id
        WHERE d.carrier IS NULL AND d.state = 'QUEUED' FOR UPDATE OF d SKIP LOCKED
      ), counted AS (
        SELECT count(*) AS n, set_config('synchronous_commit', 'off', true) FROM locked
      )
      UPDATE deliveries d
      SET carrier = CASE WHEN counted.n = 1 AND d.epoch = 1 THEN d.id ELSE ${claim.carrier} END, claimed_at = ${claim.now},
        claimed_by = ${claim.worker}
      FROM locked, counted, share
      WHERE d.day = locked.day AND d.id = locked.id AND counted.n >= ${claim.atLeast}
      RETURNING ${raw(CLAIMED)}, share.tenants, share.last_tenant,
        (SELECT count(*) > ${claim.limit} OR bool_or(turn >= share.size) FROM candidates) AS more`,
  });
  const first = rows[0];
  const moreTenants = first !== undefined && first.tenants === TENANTS_MAX;
  return {
    claimed: rows.map(({ deliveryId, tenantId, endpointId, carrier, epoch }) => ({
      deliveryId,
      tenantId,
      endpointId,
      carrier,
      epoch,
    })),
    more: moreTenants || first?.more === true,
    nextTenant: moreTenants ? first.last_tenant : "",
  };
}

export interface EndpointsClaim {
  readonly endpointIds: readonly string[];
  /** One carrier per endpoint, in the same order. */
  readonly carriers: readonly string[];
  /** Maximum number of deliveries per list. */
  readonly listMax: number;
  readonly worker: string;
  readonly now: Date;
}

/** Claims first attempts to certain endpoints, one list per endpoint. */
export async function claimForEndpoints(db: Queryable, claim: EndpointsClaim): Promise<Claimed[]> {
  const { rows } = await db.query<Claimed>({
    name: "claim-for-endpoints",
    text: `WITH candidates AS MATERIALIZED (
        SELECT d.day, d.id, d.endpoint_id FROM deliveries d
        WHERE d.carrier IS NULL AND d.state = 'QUEUED' AND d.endpoint_id = ANY ($1::text[])
          AND d.tenant_id NOT IN ${HELD_TENANTS}
        LIMIT 4096 FOR UPDATE SKIP LOCKED
      ), numbered AS (
        SELECT day, id, endpoint_id, row_number() OVER (PARTITION BY endpoint_id ORDER BY id) AS n FROM candidates
      )
      UPDATE deliveries d SET carrier = lists.carrier, claimed_at = $4, claimed_by = $5
      FROM numbered JOIN unnest($1::text[], $2::text[]) AS lists(endpoint_id, carrier)
        ON lists.endpoint_id = numbered.endpoint_id
      WHERE d.day = numbered.day AND d.id = numbered.id AND numbered.n <= $3
      RETURNING ${CLAIMED}`,
    values: [claim.endpointIds, claim.carriers, claim.listMax, claim.now, claim.worker],
  });
  return rows;
}

export interface RetryClaim {
  /** Carriers to assign, one per list. Their number limits the lists. */
  readonly carriers: readonly string[];
  readonly listMax: number;
  /** Maximum difference of the cycles' starts within a list, in seconds. */
  readonly spreadSeconds: number;
  readonly worker: string;
  readonly now: Date;
}

/**
 * Claims deliveries in mid-cycle that wait for a list of their endpoint: those that left a mixed list after a failure,
 * and those that the reconciler took from a carrier that is gone.
 */
export async function claimRetries(db: Queryable, claim: RetryClaim): Promise<ClaimedRetry[]> {
  const { rows } = await db.query<ClaimedRetry>({
    name: "claim-retries",
    text: `WITH candidates AS MATERIALIZED (
        SELECT day, id, endpoint_id, cycle_started_at, attempt_count FROM deliveries
        WHERE carrier IS NULL AND state = 'RETRYING' AND tenant_id NOT IN ${HELD_TENANTS}
        ORDER BY next_attempt_at LIMIT 2048 FOR UPDATE SKIP LOCKED
      ), numbered AS (
        SELECT day, id,
          dense_rank() OVER (ORDER BY endpoint_id, attempt_count, floor(extract(epoch FROM cycle_started_at) / $3)) AS list,
          row_number() OVER (PARTITION BY endpoint_id, attempt_count, floor(extract(epoch FROM cycle_started_at) / $3)
            ORDER BY id) AS n
        FROM candidates
      )
      UPDATE deliveries d SET carrier = ($1::text[])[numbered.list], claimed_at = $4, claimed_by = $5
      FROM numbered
      WHERE d.day = numbered.day AND d.id = numbered.id AND numbered.n <= $2 AND numbered.list <= cardinality($1::text[])
      RETURNING ${CLAIMED}, d.attempt_count AS "attemptCount",
        d.cycle_started_at AS "cycleStartedAt", d.next_attempt_at AS "nextAttemptAt"`,
    values: [claim.carriers, claim.listMax, claim.spreadSeconds, claim.now, claim.worker],
  });
  return rows;
}

/**
 * Claims deliveries again that were claimed before `before` but have no outcome: their workflow may never have been
 * started. They count as claimed `now`, so they return only after the same wait. If another sweep holds a member of a
 * carrier, that carrier is skipped: a list started without all of its members could never get the rest.
 */
export async function reclaimUnstarted(
  db: Queryable,
  { before, now, limit }: { readonly before: Date; readonly now: Date; readonly limit: number },
): Promise<Claimed[]> {
  const { rows } = await db.query<Claimed>({
    name: "reclaim-unstarted",
    text: `WITH carriers AS MATERIALIZED (
        SELECT DISTINCT carrier FROM (
          SELECT carrier FROM deliveries WHERE carrier IS NOT NULL AND state = 'QUEUED' AND claimed_at < $1
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
  });
  return rows;
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
    ...sql`WITH hurry AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
      UPDATE deliveries d SET claimed_by = ${worker}
      FROM unnest(
          ${deliveries.map(({ deliveryId }) => idDay(deliveryId))}::date[],
          ${deliveries.map(({ deliveryId }) => deliveryId)}::text[],
          ${deliveries.map(({ carrier }) => carrier)}::text[],
          ${deliveries.map(({ epoch }) => epoch)}::int[]) AS m(day, id, carrier, epoch), hurry
      WHERE d.day = m.day AND d.id = m.id AND d.carrier = m.carrier AND d.epoch = m.epoch AND d.state = 'QUEUED'
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
      SELECT n, CASE WHEN n > 0 THEN pg_notify('${OUTBOX_CHANNEL}', n::text) END FROM counted`,
    values: [workers, except, limit],
  });
  return rows[0]?.n ?? 0;
}
