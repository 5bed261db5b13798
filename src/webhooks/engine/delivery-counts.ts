/** Folds the changes of deliveries into exact counts and the health of endpoints, and reports changes of health. */
import { isWithoutPartition } from "#database/errors.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import { ensureDaysOfChanges } from "#database/repositories/partitions.ts";
import {
  type ActivityChange,
  type ChangedActivity,
  type EndpointActivity,
  foldCounts,
  lockActivity,
  NO_ACTIVITY,
  saveActivity,
} from "#database/repositories/webhooks/delivery-counts.ts";
import { transaction } from "#database/transaction.ts";
import { healthOf, withResults } from "#domain/endpoint-health.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { type OwnEventServices, publishOwnEvent } from "../ingest/own-event.ts";

const EVERY_MS = 1_000;
/** Readers add the changes that are not folded yet; only health waits. */
const IDLE_MS = 8_000;
const FOLDED_MAX = 10_000;
const COUNTS_TABLE = "delivery_counts";

export interface FoldOptions extends OwnEventServices {
  /** Role signet_worker. */
  readonly pool: Pool;
}

/** Folds all changes. Returns their number. */
export async function foldDeliveryChanges(options: FoldOptions): Promise<number> {
  for (let changes = 0; ;) {
    const folded = await foldWithDays(options);
    changes += folded;
    if (folded < FOLDED_MAX) {
      return changes;
    }
  }
}

/** Folds the next changes. If the counts of one have no partition yet, it makes it and repeats. */
async function foldWithDays(options: FoldOptions): Promise<number> {
  const { pool } = options;
  const fold = async (): Promise<number> =>
    await transaction(pool, async (db) => await foldOnce(db, options));
  try {
    return await fold();
  } catch (error) {
    if (!isWithoutPartition(error, COUNTS_TABLE)) {
      throw error;
    }
    await ensureDaysOfChanges(pool);
    return await fold();
  }
}

async function foldOnce(db: Queryable, options: FoldOptions): Promise<number> {
  const { lines, changes } = await foldCounts(db, FOLDED_MAX);
  if (changes.length > 0) {
    const before = await lockActivity(
      db,
      changes.map(({ endpointId }) => endpointId),
    );
    const now = new Date(options.clock.now());
    const changed = changes.map((change) => changedActivity(before.get(change.endpointId), change, now));
    await saveActivity(db, changed);
    for (const activity of changed) {
      await report(db, before.get(activity.endpointId), activity, options);
    }
  }
  return lines;
}

function changedActivity(
  before: EndpointActivity = NO_ACTIVITY,
  change: ActivityChange,
  now: Date,
): ChangedActivity {
  const { tenantId, endpointId, retrying, dead, failure } = change;
  const results = withResults(before.results, change.results);
  const health = healthOf(results);
  return {
    tenantId,
    endpointId,
    health,
    health_since: health === before.health ? before.health_since : now,
    results,
    failing_since: failingSince(before, change),
    lastFailure: failure ?? before.lastFailure,
    retrying,
    dead,
  };
}

/** Returns when the last row of failures began, exact to the second in which the lines were written. */
function failingSince(
  before: EndpointActivity,
  { results, failure, firstEndedAt }: ActivityChange,
): Date | null {
  if (results.endsWith("1")) {
    return null;
  }
  return results.includes("1") ? (failure?.at ?? null) : (before.failing_since ?? firstEndedAt);
}

/** Publishes `endpoint.failing` and `endpoint.recovered` to the tenant's other endpoints. */
async function report(
  db: Queryable,
  before: EndpointActivity = NO_ACTIVITY,
  after: ChangedActivity,
  options: FoldOptions,
): Promise<void> {
  if ((before.health === "failing") === (after.health === "failing")) {
    return;
  }
  const { tenantId, endpointId, health, lastFailure, failing_since, health_since } = after;
  const type = health === "failing" ? "endpoint.failing" : "endpoint.recovered";
  const data = JSON.stringify({
    endpoint_id: endpointId,
    health,
    since: health_since?.toISOString() ?? null,
    ...(type === "endpoint.failing" && { failing_since: failing_since?.toISOString() ?? null }),
    last_error:
      lastFailure === null
        ? null
        : { at: lastFailure.at.toISOString(), status: lastFailure.status, error: lastFailure.error },
  });
  await publishOwnEvent(db, { tenantId, type, data, except: endpointId, onlyIfTaken: true }, options);
}

/** Returns the job that folds the counts of deliveries, and reports endpoints that begin or cease to fail. */
export function deliveryCountsJob(options: FoldOptions): UpkeepJob {
  return {
    name: "delivery counts",
    everyMs: EVERY_MS,
    idleMs: IDLE_MS,
    run: async () => await foldDeliveryChanges(options),
  };
}
