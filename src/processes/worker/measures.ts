/** Metrics of the whole deployment: every worker measures the same, and alerts use the largest value. */
import { measureOverdue } from "#tokens/credentials/rotation-sweep.ts";
import type { Pool } from "#database/pool.ts";
import { isSigningKeyOlder, oldestUnsigned, readCensus } from "#database/repositories/webhooks/census.ts";
import { oldestDayOverdueMs, readTableHealth } from "#database/repositories/partitions.ts";
import type { GuardedClock } from "#domain/clock.ts";
import { CellClock } from "#database/database-clock.ts";
import { clockSkewJob, homeSkewJob } from "#observability/clock-skew.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { SIGNING_AGE_MAX_MS } from "#tokens/signing-keys/lifecycle.ts";

const CENSUS_MS = 15_000;
const OVERDUE_MS = 60_000;
const CHECKPOINT_MS = 15_000;
const TABLES_MS = 5_000;

export interface MeasureServices {
  /** Role signet_worker. */
  readonly pool: Pool;
  /** Role signet_rotator. */
  readonly rotatorPool: Pool;
  /** Role signet_operator. */
  readonly operatorPool: Pool;
  /** Role signet_audit. */
  readonly auditPool: Pool;
  readonly clock: GuardedClock;
  /** Number of whole days for which finished deliveries are kept. */
  readonly retentionDays: number;
}

async function measureCensus({ pool, clock }: Pick<MeasureServices, "pool" | "clock">): Promise<void> {
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

async function measureCheckpoint({ auditPool, clock }: MeasureServices): Promise<void> {
  const since = await oldestUnsigned(auditPool);
  metrics.checkpointAge.set(since === undefined ? 0 : Math.max(0, clock.now() - since.getTime()) / 1_000);
}

async function measureRotations({ rotatorPool, operatorPool, clock }: MeasureServices): Promise<void> {
  await measureOverdue({ pool: rotatorPool, clock });
  const overdue = await isSigningKeyOlder(operatorPool, new Date(clock.now() - SIGNING_AGE_MAX_MS));
  metrics.overdueRotations.set({ kind: "signing_key" }, overdue ? 1 : 0);
}

async function measurePartitions({ pool, clock, retentionDays }: MeasureServices): Promise<void> {
  const overdueMs = await oldestDayOverdueMs(pool, clock.now(), retentionDays);
  metrics.oldestPartition.set(overdueMs / 1_000);
}

async function measureTables({ pool }: MeasureServices): Promise<void> {
  const { waiting_pages: waitingPages, lock_wait_seconds: lockWaitSeconds } = await readTableHealth(pool);
  metrics.waitingIndexPages.set(waitingPages);
  metrics.lockWait.set(lockWaitSeconds);
}

/** Returns the measuring jobs. */
export function openMeasures(parts: MeasureServices, log: Logger): readonly UpkeepJob[] {
  return [
    { name: "census", everyMs: CENSUS_MS, run: async () => await measureCensus(parts) },
    { name: "checkpoint age", everyMs: CHECKPOINT_MS, run: async () => await measureCheckpoint(parts) },
    { name: "overdue rotations", everyMs: OVERDUE_MS, run: async () => await measureRotations(parts) },
    { name: "partition age", everyMs: OVERDUE_MS, run: async () => await measurePartitions(parts) },
    { name: "tables", everyMs: TABLES_MS, run: async () => await measureTables(parts) },
    clockSkewJob(parts.clock, log),
    ...(parts.clock instanceof CellClock ? [homeSkewJob(parts.clock, log)] : []),
  ];
}
