/** Finds deliveries whose carrier has not acted in time. */
import { idDay } from "#domain/ids.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import { queryInOrder, queryInTurn } from "#database/transaction.ts";
import { HELD_TENANTS } from "../tenants.ts";
import { WAITING } from "./claims.ts";
import { waitingRetry } from "./list-claims.ts";

export interface OverdueDelivery {
  readonly delivery_id: string;
  readonly carrier: string;
  readonly epoch: number;
  readonly state: "QUEUED" | "RETRYING";
  /** Whether its endpoint is slow, so that the delivery may be in the endpoint's queue. */
  readonly slow: boolean;
  /** When its carrier got it. */
  readonly claimed_at: Date | null;
}

export interface OverdueQuery {
  /** Retries due before this instant are overdue, and so are first attempts of deliveries accepted before it. */
  readonly before: Date;
  /** Deliveries claimed after this instant are skipped, because they may be about to start. */
  readonly claimedBefore: Date;
  readonly now: Date;
  readonly limit: number;
}

/** Returns overdue deliveries with a carrier, the most overdue first. */
export async function findOverdue(
  pool: Pool,
  { before, claimedBefore, now, limit }: OverdueQuery,
): Promise<OverdueDelivery[]> {
  const statement = {
    name: "find-overdue",
    text: `SELECT d.id AS delivery_id, d.carrier, d.epoch, d.state, h.endpoint_id IS NOT NULL AS slow,
          d.claimed_at FROM (
        (SELECT id, carrier, epoch, state, endpoint_id, claimed_at FROM deliveries
          WHERE carrier IS NOT NULL AND state = 'RETRYING' AND next_attempt_at < $1 AND tenant_id NOT IN ${HELD_TENANTS}
            AND (claimed_at IS NULL OR claimed_at < $4)
          ORDER BY next_attempt_at LIMIT $3)
        UNION ALL
        (SELECT id, carrier, epoch, state, endpoint_id, claimed_at FROM deliveries
          WHERE carrier IS NOT NULL AND state = 'QUEUED' AND created_at < $1 AND claimed_at < $4 AND tenant_id NOT IN ${HELD_TENANTS}
          ORDER BY claimed_at LIMIT $3)
      ) d
      LEFT JOIN endpoint_health h ON h.endpoint_id = d.endpoint_id AND h.slow_until > $2`,
    values: [before, now, limit, claimedBefore],
  };
  return await queryInOrder<OverdueDelivery>(pool, statement);
}

/**
 * Takes unfinished deliveries and dead letters from a carrier that is gone, hands them back or does not know them. They
 * keep their attempts and wait for a new carrier. The old carrier and epoch guard the update, so that only one of two
 * reconcilers succeeds.
 *
 * @returns the number of deliveries moved
 */
export async function takeFromCarrier(
  db: Queryable,
  deliveries: readonly Pick<OverdueDelivery, "delivery_id" | "carrier" | "epoch">[],
): Promise<number> {
  const { rowCount } = await db.query({
    name: "take-from-carrier",
    text: `UPDATE deliveries d SET carrier = NULL, epoch = d.epoch + 1, claimed_at = NULL
      FROM unnest($1::date[], $2::text[], $3::text[], $4::int[]) AS m(day, id, carrier, epoch)
      WHERE d.day = m.day AND d.id = m.id AND d.carrier = m.carrier AND d.epoch = m.epoch
        AND d.state IN ('QUEUED', 'RETRYING', 'DEAD_LETTERED')`,
    values: [
      deliveries.map((delivery) => idDay(delivery.delivery_id)),
      deliveries.map((delivery) => delivery.delivery_id),
      deliveries.map((delivery) => delivery.carrier),
      deliveries.map((delivery) => delivery.epoch),
    ],
  });
  return rowCount ?? 0;
}

/** A carrier of dead letters, and how many it has. */
export interface CarrierOfLetters {
  readonly carrier: string;
  readonly letters: number;
}

/**
 * Returns carriers of dead letters in the order of their names, after one of them.
 *
 * @param letters how many rows to read at most: more than a carrier has
 * @returns the carriers, and after which to continue; "" after the last
 */
export async function findCarriersOfLetters(
  db: Queryable,
  {
    after,
    letters,
    carriers,
  }: { readonly after: string; readonly letters: number; readonly carriers: number },
): Promise<{ readonly found: readonly CarrierOfLetters[]; readonly next: string }> {
  const { rows } = await queryInTurn<CarrierOfLetters>(db, {
    name: "find-carriers-of-letters",
    text: `SELECT carrier, count(*)::int AS letters FROM (
        SELECT carrier FROM deliveries WHERE state = 'DEAD_LETTERED' AND carrier > $1 ORDER BY carrier LIMIT $2
      ) page GROUP BY carrier ORDER BY carrier`,
    values: [after, letters],
  });
  const read = rows.reduce((sum, row) => sum + row.letters, 0);
  // The rest of the last one may be on the next page.
  const whole = read < letters ? rows : rows.slice(0, -1);
  const found = whole.slice(0, carriers);
  return { found, next: found.length < rows.length ? (found.at(-1)?.carrier ?? "") : "" };
}

/** Returns how many dead letters carriers have; nothing for those without. */
export async function lettersOfCarriers(
  db: Queryable,
  carriers: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await queryInTurn<CarrierOfLetters>(db, {
    name: "letters-of-carriers",
    // For a limit that it does not know, the planner follows an index that is in order.
    text: `SELECT c.carrier, l.letters FROM unnest($1::text[]) AS c(carrier) CROSS JOIN LATERAL (
        SELECT count(*)::int AS letters FROM (
          SELECT FROM deliveries d WHERE d.state = 'DEAD_LETTERED' AND d.carrier = c.carrier
          ORDER BY d.carrier, d.endpoint_id, d.id LIMIT (SELECT 2147483647)
        ) mine
      ) l WHERE l.letters > 0`,
    values: [carriers],
  });
  return new Map(rows.map(({ carrier, letters }) => [carrier, letters]));
}

export interface LetterOfCarrier {
  readonly delivery_id: string;
  readonly epoch: number;
  readonly dead_lettered_at: Date;
  /** Null if no worker has claimed it that still runs. */
  readonly claimed_at: Date | null;
}

/** Returns the dead letters of a carrier. */
export async function findLettersOf(db: Queryable, carrier: string): Promise<LetterOfCarrier[]> {
  const { rows } = await db.query<LetterOfCarrier>({
    name: "find-letters-of-carrier",
    text: `SELECT d.id AS delivery_id, d.epoch, d.dead_lettered_at,
        CASE WHEN w.id IS NOT NULL THEN d.claimed_at END AS claimed_at
      FROM deliveries d LEFT JOIN workers w ON w.id = d.claimed_by
      WHERE d.state = 'DEAD_LETTERED' AND d.carrier = $1 ORDER BY d.id`,
    values: [carrier],
  });
  return rows;
}

/** Counts dead letters that have waited for a carrier since before an instant, up to 10,000. */
export async function countUncarriedLetters(db: Queryable, before: Date): Promise<number> {
  const { rows } = await queryInTurn<{ count: number }>(db, {
    name: "count-uncarried-letters",
    // For a limit that it does not know, the planner follows an index that is in order.
    text: `SELECT count(*)::int AS count FROM (
        SELECT FROM deliveries WHERE state = 'DEAD_LETTERED' AND carrier IS NULL AND dead_lettered_at < $1
        ORDER BY carrier, endpoint_id, id LIMIT (SELECT 10000)
      ) waiting`,
    values: [before],
  });
  return rows[0]?.count ?? 0;
}

/**
 * Returns when the database was put back from a backup (docs/operations.md), if that was within an hour and no worker has
 * run since. Everything is then overdue by nature.
 */
export async function findRestore(db: Queryable, now: Date): Promise<Date | undefined> {
  const { rows } = await db.query<{ at: Date }>({
    name: "find-restore",
    text: `SELECT epoch_at AS at FROM rev_clock WHERE epoch_at > $1::timestamptz - interval '1 hour'
        AND NOT EXISTS (SELECT FROM workers WHERE seen_at > epoch_at)`,
    values: [now],
  });
  return rows[0]?.at;
}

/** The lag of the outbox, in seconds. */
export interface Lag {
  /** Age of the oldest accepted delivery without an attempt; 0 if there is none. */
  readonly oldestUnattemptedSeconds: number;
  /** Delay of the most overdue retry; 0 if there is none. */
  readonly mostOverdueSeconds: number;
}

/** Maximum number of tenants, and of deliveries per tenant, that are read. */
const LOOKED_AT_MAX = 1_000;

/** Returns SQL that names a table of each tenant's first waiting delivery `d`, in an order that an index has. */
function firstsOf(name: string, condition: string, order: "id" | "next_attempt_at"): string {
  return `${name}(tenant_id, next_attempt_at) AS (
        SELECT '' COLLATE "C", NULL::timestamptz
        UNION ALL
        SELECT first.tenant_id, first.next_attempt_at FROM ${name} CROSS JOIN LATERAL (
          SELECT d.tenant_id, d.next_attempt_at FROM deliveries d
          WHERE ${condition} AND d.tenant_id > ${name}.tenant_id ORDER BY d.tenant_id, d.${order} LIMIT 1
        ) first
      )`;
}

/** Returns SQL for the first rows of {@link firstsOf} whose tenants are not held. */
function runningOf(name: string): string {
  return `(SELECT * FROM ${name} WHERE tenant_id <> '' AND tenant_id NOT IN ${HELD_TENANTS} LIMIT ${LOOKED_AT_MAX}) t`;
}

/** Each day has an index for each part, so every part costs PostgreSQL some milliseconds of planning. */
const LAG = `WITH RECURSIVE ${firstsOf("waiting", WAITING, "id")}, ${firstsOf("answered", waitingRetry(false), "next_attempt_at")}, ${firstsOf("timed_out", waitingRetry(true), "next_attempt_at")}, oldest AS (
    SELECT mine.created_at FROM ${runningOf("waiting")}
    CROSS JOIN LATERAL (
      SELECT d.created_at, d.cycle FROM deliveries d
      WHERE ${WAITING} AND d.tenant_id = t.tenant_id ORDER BY d.id LIMIT ${LOOKED_AT_MAX}
    ) mine WHERE mine.cycle = 1
    UNION ALL
    -- Excludes those that wait for their endpoint's rate limit, which their tenant has set.
    (SELECT d.created_at FROM deliveries d JOIN endpoints p ON p.id = d.endpoint_id
      WHERE d.carrier IS NOT NULL AND d.state = 'QUEUED' AND d.cycle = 1 AND d.claimed_at <= $1 AND p.rate_limit IS NULL
        AND d.tenant_id NOT IN ${HELD_TENANTS}
      ORDER BY d.claimed_at LIMIT ${LOOKED_AT_MAX})
  )
  SELECT
    (SELECT min(created_at) FROM oldest) AS unattempted,
    least(
      (SELECT next_attempt_at FROM deliveries WHERE carrier IS NOT NULL AND state = 'RETRYING' AND tenant_id NOT IN ${HELD_TENANTS} ORDER BY next_attempt_at LIMIT 1),
      (SELECT min(next_attempt_at) FROM ${runningOf("answered")}),
      (SELECT min(next_attempt_at) FROM ${runningOf("timed_out")})
    ) AS overdue`;

/**
 * Reads the lag from the starts of indexes. A replayed dead letter was accepted long ago and has had attempts. It
 * counts in neither figure until its first retry.
 */
export async function readLag(pool: Pool, now: Date): Promise<Lag> {
  const statement = { name: "read-lag", text: LAG, values: [now] };
  const rows = await queryInOrder<{ unattempted: Date | null; overdue: Date | null }>(pool, statement);
  const age = (instant: Date | null | undefined): number =>
    instant === null || instant === undefined ? 0 : Math.max(0, (now.getTime() - instant.getTime()) / 1_000);
  return {
    oldestUnattemptedSeconds: age(rows[0]?.unattempted),
    mostOverdueSeconds: age(rows[0]?.overdue),
  };
}
