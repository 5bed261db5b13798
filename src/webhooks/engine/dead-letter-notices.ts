/**
 * Notifies tenants of their dead letters: `delivery.dead_lettered` once per endpoint and minute, and
 * `dead_letter.expiring` a day ahead, once per endpoint and hour. Dead letters that were such notices themselves
 * cause none.
 */
import type { Pool } from "#database/pool.ts";
import {
  type DeadLetterNotice,
  foldChanges,
  noteExpiring,
  takeNotices,
} from "#database/repositories/webhooks/dead-letter-counts.ts";
import { transaction } from "#database/transaction.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { type OwnEventServices, publishOwnEvent } from "../ingest/own-event.ts";

const COUNTS_MS = 1_000;
/** Readers add the changes that are not folded yet; only notices wait, of which each covers a minute. */
const COUNTS_IDLE_MS = 8_000;
const NOTICES_MS = 10_000;
const FOLDED_MAX = 10_000;
const NOTICES_MAX = 50;
/** A day and an hour of a week, scaled down if the dead-letter period is shorter. */
const LEAD_SHARE = 24 / 168;
const WINDOW_SHARE = 1 / 168;

export interface NoticeOptions extends OwnEventServices {
  /** Role signet_worker. */
  readonly pool: Pool;
}

/** Updates the dead-letter counts. Returns the number of changes. */
export async function foldDeadLetters({
  pool,
  clock,
}: Pick<NoticeOptions, "pool" | "clock">): Promise<number> {
  for (let changes = 0; ;) {
    const folded = await foldChanges(pool, { now: new Date(clock.now()), limit: FOLDED_MAX });
    changes += folded;
    if (folded < FOLDED_MAX) {
      return changes;
    }
  }
}

function eventOf(notice: DeadLetterNotice): {
  readonly type: "dead_letter.expiring" | "delivery.dead_lettered";
  readonly data: string;
} {
  const { kind, endpoint_id: endpointId, letters, ids, expires_at: expiresAt, bucket } = notice;
  const common = { endpoint_id: endpointId, count: letters, delivery_ids: ids };
  return kind === "expiring"
    ? {
        type: "dead_letter.expiring",
        data: JSON.stringify({
          ...common,
          first_expires_at: expiresAt?.toISOString() ?? null,
          before: bucket.toISOString(),
        }),
      }
    : { type: "delivery.dead_lettered", data: JSON.stringify({ ...common, minute: bucket.toISOString() }) };
}

/** Publishes the due notices once each: their rows are removed in the transaction that publishes them. */
async function publishNotices(options: NoticeOptions): Promise<number> {
  const { pool, clock, deadLetterMs } = options;
  const windowMs = deadLetterMs * WINDOW_SHARE;
  const now = new Date(clock.now());
  const until = new Date((Math.floor((now.getTime() + deadLetterMs * LEAD_SHARE) / windowMs) + 1) * windowMs);
  await transaction(pool, async (db) => await noteExpiring(db, { now, until }));
  for (let published = 0; ;) {
    const taken = await transaction(pool, async (db) => {
      const notices = await takeNotices(db, { now, limit: NOTICES_MAX });
      for (const notice of notices) {
        const { tenant_id: tenantId, endpoint_id: endpointId } = notice;
        const event = { tenantId, ...eventOf(notice), except: endpointId, onlyIfTaken: true };
        await publishOwnEvent(db, event, options);
      }
      return notices.length;
    });
    published += taken;
    if (taken < NOTICES_MAX) {
      return published;
    }
  }
}

/** Returns the jobs that fold the counts of dead letters, and notify tenants. */
export function deadLetterJobs(options: NoticeOptions): readonly UpkeepJob[] {
  return [
    {
      name: "dead letter counts",
      everyMs: COUNTS_MS,
      idleMs: COUNTS_IDLE_MS,
      run: async () => await foldDeadLetters(options),
    },
    { name: "dead letter notices", everyMs: NOTICES_MS, run: async () => await publishNotices(options) },
  ];
}
