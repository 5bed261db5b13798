/** Lists the items of replay jobs over a filter, in parts (decision 20). */
import { idDay } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import { raw, sql, type Statement } from "#database/sql.ts";
import { type DeliveryFilter, partsOf, selectDeliveries } from "./delivery-filter.ts";
import { filtersOf, type ReplayableState } from "./replay-items.ts";

/** What a job has still to list: the deliveries that match a filter, after the last one that was compared. */
export interface Listing {
  readonly filter: DeliveryFilter;
  /** The selected states of a job over deliveries; absent for one over dead letters. */
  readonly states?: readonly ReplayableState[];
  readonly after: string | null;
}

interface ListingStep {
  readonly jobId: string;
  readonly tenantId: string;
  /** Position of the job's last item. */
  readonly position: number;
  /** What came into its state later is no item; undefined within the request's own transaction. */
  readonly until?: Date;
  readonly now: Date;
  /** Maximum number of deliveries to compare. */
  readonly size: number;
}

/** When a delivery came into its state, as far as that is stored. */
const CAME_AT: Readonly<Partial<Record<ReplayableState, string>>> = {
  DEAD_LETTERED: "d.dead_lettered_at",
  DELIVERED: "d.delivered_at",
  EXPIRED: "d.expires_at",
};

/** States of which a job lists all items before the answer: nothing stores when a delivery was cancelled. */
export const LISTED_BEFORE_ANSWER: readonly ReplayableState[] = ["CANCELLED"];

/**
 * Returns conditions for what follows a delivery: the rest of its day, and then later days, as lists read them. These
 * begin with a day, or PostgreSQL would read the delivery's day once more.
 */
function placesAfter(id: string | null): readonly Statement[] {
  return id === null
    ? [sql`true`]
    : [sql`d.day = ${idDay(id)} AND d.id > ${id}`, sql`d.day >= ${idDay(id)}::date + 1`];
}

function cameBefore(state: ReplayableState, until: Date | undefined): Statement {
  const at = CAME_AT[state];
  return until === undefined
    ? sql`true`
    : sql`d.created_at <= ${until} AND coalesce(${raw(at ?? "NULL::timestamptz")} <= ${until}, true)`;
}

/** Returns the next deliveries of each state, and whether each of them is an item. One index serves each part. */
function nextOf(
  { filter, states }: Listing,
  { tenantId, until, now }: ListingStep,
  { place, most }: { readonly place: Statement; readonly most: number },
): readonly Statement[] {
  const filters = states === undefined ? filtersOf({ filter }) : filtersOf({ states, filter });
  return filters.flatMap((each) => {
    const selection = { tenantId, filter: each, now };
    const matches = sql`${selectDeliveries(selection)} AND ${cameBefore(each.state, until)}`;
    const state = states === undefined ? null : each.state;
    return partsOf(selection).map(
      ({
        where,
      }) => sql`(SELECT d.day, d.id, d.event_id, d.cycle, ${state}::text AS item_state, ${matches} AS is_item
        FROM deliveries d WHERE ${where} AND ${place} ORDER BY d.day, d.id LIMIT ${most})`,
    );
  });
}

/**
 * Lists the next items of a job, oldest first, of all states at once: no delivery that changes its state meanwhile is an
 * item twice. Returns the number of new items, and what is left; null if nothing is (role signet_api or signet_worker).
 */
export async function listItems(
  db: Queryable,
  listing: Listing,
  step: ListingStep,
): Promise<{ readonly listed: number; readonly left: Listing | null }> {
  const { jobId, tenantId, position, size } = step;
  let { after } = listing;
  let [listed, open] = [0, size];
  for (const place of placesAfter(after)) {
    const parts = nextOf(listing, step, { place, most: open });
    if (parts.length === 0) {
      break;
    }
    const { rows } = await db.query<{ listed: number; compared: number; last: string | null }>(
      sql`WITH compared AS MATERIALIZED (
          SELECT * FROM (${parts.reduce((all, part) => sql`${all} UNION ALL ${part}`)}) d
          ORDER BY d.day, d.id, d.is_item DESC LIMIT ${open}
        ), listed AS (
          INSERT INTO replay_items (job_id, position, tenant_id, day, delivery_id, event_id, cycle, state)
          SELECT ${jobId}, ${position + listed}::int + row_number() OVER (ORDER BY d.day, d.id), ${tenantId}, d.day, d.id,
            d.event_id, d.cycle, d.item_state
          FROM compared d WHERE d.is_item RETURNING 1
        )
        SELECT (SELECT count(*) FROM listed) AS listed, (SELECT count(*) FROM compared) AS compared,
          (SELECT max(id) FROM compared) AS last`,
    );
    const [found = { listed: 0, compared: 0, last: null }] = rows;
    listed += found.listed;
    open -= found.compared;
    after = found.last ?? after;
    if (open === 0) {
      return { listed, left: { ...listing, after } };
    }
  }
  return { listed, left: null };
}
