/**
 * Changes by a carrier to its own deliveries, for instance back to the outbox. Each is one guarded UPDATE. Their conditions
 * of the state fit no index of what waits, so the key finds each row (decision 40).
 */
import { idDay } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import { queryInTurn } from "#database/transaction.ts";
import type { Row } from "#database/rows.ts";
import { type EndpointAgainst, endpointAgainst } from "../endpoints/endpoints.ts";
import { HELD_TENANTS } from "../tenants.ts";
import { NEW_CYCLE } from "./deliveries.ts";

/** Deliveries with the fence of their carrier. */
export interface Fenced {
  readonly carrier: string;
  readonly ids: readonly string[];
  readonly epochs: readonly number[];
}

function fencedValues({ carrier, ids, epochs }: Fenced): unknown[] {
  return [ids.map(idDay), ids, epochs, carrier];
}

/** A delivery and its tenant. */
export type Owned = Row<"deliveries", "id" | "tenant_id">;

const OWNED = "d.id, d.tenant_id";

/**
 * Returns a carrier's dead letters to the outbox with a new cycle, unless their tenant is on hold or their endpoint
 * disabled or deleted.
 *
 * @returns those returned
 */
export async function replayFromCarrier(db: Queryable, fenced: Fenced, now: Date): Promise<Owned[]> {
  const { rows } = await db.query<Owned>({
    name: "replay-from-carrier",
    text: `UPDATE deliveries d SET ${NEW_CYCLE}
      FROM unnest($1::date[], $2::text[], $3::int[]) AS m(day, id, epoch)
      WHERE d.day = m.day AND d.id = m.id AND d.carrier = $4 AND d.epoch = m.epoch
        AND d.state || '' = 'DEAD_LETTERED' AND d.expires_at > $5 AND d.tenant_id NOT IN ${HELD_TENANTS} AND ${endpointAgainst(false)} IS NULL
      RETURNING ${OWNED}`,
    values: [...fencedValues(fenced), now],
  });
  return rows;
}

/** Cancels a carrier's open deliveries. Returns those that were open. */
export async function cancelFromCarrier(db: Queryable, fenced: Fenced): Promise<Owned[]> {
  const { rows } = await db.query<Owned>({
    name: "cancel-from-carrier",
    text: `UPDATE deliveries d SET state = 'CANCELLED', next_attempt_at = NULL, expires_at = NULL
      FROM unnest($1::date[], $2::text[], $3::int[]) AS m(day, id, epoch)
      WHERE d.day = m.day AND d.id = m.id AND d.carrier = $4 AND d.epoch = m.epoch
        AND d.state IN ('QUEUED', 'RETRYING', 'DEAD_LETTERED')
      RETURNING ${OWNED}`,
    values: fencedValues(fenced),
  });
  return rows;
}

/** A delivery that its carrier holds, and what stands against a replay. */
export interface Held extends Owned {
  readonly against: "not_in_queue" | "expired" | "tenant_held" | EndpointAgainst;
}

/**
 * Returns which of these deliveries are still the carrier's: the fence holds, and they are not cancelled. Includes
 * those delivered or expired meanwhile, which the carrier must learn of.
 */
export async function heldByCarrier(db: Queryable, fenced: Fenced, now: Date): Promise<Held[]> {
  const { rows } = await db.query<Held>({
    name: "held-by-carrier",
    text: `SELECT ${OWNED}, CASE WHEN d.state <> 'DEAD_LETTERED' THEN 'not_in_queue' WHEN d.expires_at <= $5 THEN 'expired'
          WHEN d.tenant_id IN ${HELD_TENANTS} THEN 'tenant_held'
          ELSE coalesce(${endpointAgainst(false)}, 'endpoint_unavailable') END AS against
      FROM unnest($1::date[], $2::text[], $3::int[]) AS m(day, id, epoch)
      JOIN deliveries d ON d.day = m.day AND d.id = m.id AND d.carrier = $4 AND d.epoch = m.epoch
      WHERE d.state <> 'CANCELLED'`,
    values: [...fencedValues(fenced), now],
  });
  return rows;
}

/** Expires a carrier's dead letters after their week. Returns the state of those that are still its own. */
export async function expireFromCarrier(
  db: Queryable,
  fenced: Fenced,
  now: Date,
): Promise<{ id: string; expired: boolean; expiresAt: Date }[]> {
  const { rows } = await db.query<{ id: string; state: string; expires_at: Date }>({
    name: "expire-from-carrier",
    text: `UPDATE deliveries d SET state = CASE WHEN d.expires_at <= $5 THEN 'EXPIRED' ELSE d.state END
      FROM unnest($1::date[], $2::text[], $3::int[]) AS m(day, id, epoch)
      WHERE d.day = m.day AND d.id = m.id AND d.carrier = $4 AND d.epoch = m.epoch
        AND d.state || '' IN ('DEAD_LETTERED', 'EXPIRED')
      RETURNING d.id, d.state, d.expires_at`,
    values: [...fencedValues(fenced), now],
  });
  return rows.map((row) => ({ id: row.id, expired: row.state === "EXPIRED", expiresAt: row.expires_at }));
}

/** Dead letters that one {@link expireOverdue} expires. */
export const EXPIRED_AT_ONCE = 500;

/**
 * Expires dead letters of any carrier after their week, so that they end even without Temporal. Returns their number,
 * at most {@link EXPIRED_AT_ONCE}. The limit stands in the text: a generic plan takes a parameter for a tenth of all
 * overdue rows, and would read every delivery once these are many.
 */
export async function expireOverdue(db: Queryable, now: Date): Promise<number> {
  const { rowCount } = await queryInTurn(db, {
    name: "expire-overdue",
    text: `WITH overdue AS (
        SELECT day, id FROM deliveries WHERE state = 'DEAD_LETTERED' AND expires_at <= $1
        ORDER BY expires_at LIMIT ${EXPIRED_AT_ONCE} FOR UPDATE SKIP LOCKED
      )
      UPDATE deliveries d SET state = 'EXPIRED' FROM overdue o WHERE d.day = o.day AND d.id = o.id`,
    values: [now],
  });
  return rowCount ?? 0;
}
