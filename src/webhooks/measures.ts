/** Metrics of the whole deployment: every worker measures the same, and alerts use the largest value. */
import type { Pool } from "#database/pool.ts";
import { oldestDayOverdueMs, readTableHealth } from "#database/repositories/partitions.ts";
import { readCensus } from "#database/repositories/webhooks/census.ts";
import { countUnhealthy } from "#database/repositories/webhooks/delivery-counts.ts";
import { readLag } from "#database/repositories/webhooks/reconciliation.ts";
import type { Clock } from "#domain/clock.ts";
import { metrics } from "#observability/metrics.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";

const CENSUS_MS = 15_000;
const LAG_MS = 5_000;
const PARTITIONS_MS = 60_000;
const TABLES_MS = 5_000;

export interface MeasureOptions {
  /** Role signet_worker. */
  readonly pool: Pool;
  readonly clock: Clock;
  /** Number of whole days for which finished deliveries are kept. */
  readonly retentionDays: number;
}

async function measureCensus({ pool, clock }: MeasureOptions): Promise<void> {
  const census = await readCensus(pool, clock.now());
  metrics.openDeliveries.set({ state: "waiting" }, census.waiting);
  metrics.openDeliveries.set({ state: "started" }, census.started);
  metrics.openDeliveries.set({ state: "retrying" }, census.retrying);
  metrics.deadLetters.set(census.dead_letters);
  metrics.deadLettersExpiring.set(census.expiring);
  metrics.replayJobs.set({ state: "running" }, census.replays_running);
  metrics.replayJobs.set({ state: "paused" }, census.replays_paused);
  metrics.verificationBacklog.set(census.verifications);
  metrics.oldestVerification.set(census.oldest_verification_seconds);
  metrics.overdueRotations.set({ kind: "endpoint_secret" }, census.overdue_endpoint_secrets);
}

/** Separate from the reconciliation, which needs Temporal: the lag matters most while Temporal is down. */
async function measureLag({ pool, clock }: MeasureOptions): Promise<void> {
  const found = await readLag(pool, new Date(clock.now()));
  metrics.oldestUnattempted.set(found.oldestUnattemptedSeconds);
  metrics.mostOverdue.set(found.mostOverdueSeconds);
  const { degraded, failing } = await countUnhealthy(pool);
  metrics.unhealthyEndpoints.set({ health: "degraded" }, degraded);
  metrics.unhealthyEndpoints.set({ health: "failing" }, failing);
}

async function measurePartitions({ pool, clock, retentionDays }: MeasureOptions): Promise<void> {
  const overdueMs = await oldestDayOverdueMs(pool, clock.now(), retentionDays);
  metrics.oldestPartition.set(overdueMs / 1_000);
}

async function measureTables({ pool }: MeasureOptions): Promise<void> {
  const { waiting_pages: waitingPages, lock_wait_seconds: lockWaitSeconds } = await readTableHealth(pool);
  metrics.waitingIndexPages.set(waitingPages);
  metrics.lockWait.set(lockWaitSeconds);
}

/** Returns the jobs that measure deliveries, endpoints and their tables. */
export function measuringJobs(options: MeasureOptions): readonly UpkeepJob[] {
  return [
    { name: "lag", everyMs: LAG_MS, run: async () => await measureLag(options) },
    { name: "census", everyMs: CENSUS_MS, run: async () => await measureCensus(options) },
    { name: "partition age", everyMs: PARTITIONS_MS, run: async () => await measurePartitions(options) },
    { name: "tables", everyMs: TABLES_MS, run: async () => await measureTables(options) },
  ];
}
