/** Periodic jobs of a worker process. */
import { randomBytes } from "node:crypto";
import type { Client } from "@temporalio/client";
import type { Keyring } from "#crypto/keyring.ts";
import { cellsOf } from "#config/cell-settings.ts";
import { isAway } from "#domain/regions.ts";
import { CLOCK_SKEW_MAX_MS } from "#database/database-clock.ts";
import type { Pool } from "#database/pool.ts";
import { beatWorker, readHealth, writeHealth } from "#database/repositories/health.ts";
import { bringBackCycles, bringBackInstants } from "#database/repositories/webhooks/future-instants.ts";
import { countUnhealthy } from "#database/repositories/webhooks/delivery-counts.ts";
import { countUncounted } from "#database/repositories/webhooks/uncounted-hours.ts";
import { forgetStatusLists } from "#database/repositories/tokens/status-lists.ts";
import { ensurePartitions, rotateTables } from "#database/repositories/partitions.ts";
import { readLag } from "#database/repositories/webhooks/reconciliation.ts";
import type { Dispatcher } from "#webhooks/engine/dispatcher.ts";
import type { Engine } from "../engine.ts";
import { handBackOfDead } from "#webhooks/engine/hand-back.ts";
import { LetterReconciler } from "#webhooks/engine/letter-reconciler.ts";
import { Reconciler } from "#webhooks/engine/reconciler.ts";
import { Releaser } from "#webhooks/engine/release.ts";
import type { GuardedClock } from "#domain/clock.ts";
import { disableFailing, writeFailures } from "#webhooks/endpoints/disable-failing.ts";
import { rotateOnSchedule } from "#webhooks/endpoints/scheduled-rotation.ts";
import { sweepSecrets } from "#webhooks/endpoints/secret-sweep.ts";
import { whileRight } from "#observability/clock-skew.ts";
import { metrics } from "#observability/metrics.ts";
import { foldDeadLetters, publishNotices } from "#webhooks/engine/dead-letter-notices.ts";
import { publishRevocationNotices } from "#webhooks/revocation-notices.ts";
import { countStoredFor } from "#webhooks/engine/count-stored.ts";
import { foldDeliveryChanges } from "#webhooks/engine/delivery-counts.ts";
import { createReplayStarter } from "#webhooks/replay/replay-starter.ts";
import { sweepReplays } from "#webhooks/replay/replay-sweep.ts";
import { eraseTenants } from "#webhooks/retention/erase-tenants.ts";
import { LIST_ENDS_MS } from "#tokens/status-lists/places.ts";
import { ensureSchedules } from "#temporal/schedules.ts";
import { Upkeep, type UpkeepJob } from "#runtime/upkeep.ts";
import { cellLogs } from "#cells/cell-logs.ts";
import { homeJobs } from "#cells/home-cell.ts";
import { openMeasures } from "./measures.ts";
import type { WorkerProcessOptions } from "./options.ts";
import { verificationJobs } from "./verifications.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const DEAD_LETTER_COUNTS_MS = 1_000;
/** Readers add the changes that are not folded yet; only notices wait, of which each covers a minute. */
const DEAD_LETTER_COUNTS_IDLE_MS = 8_000;
/** Readers add the changes that are not folded yet; only health waits. */
const DELIVERY_COUNTS_MS = 1_000;
const DELIVERY_COUNTS_IDLE_MS = 8_000;
/** Counts for so long, then pauses. */
const STORED_COUNTS_WORK_MS = 500;
const STORED_COUNTS_MS = 1_000;
const STORED_COUNTS_IDLE_MS = 60_000;
const DEAD_LETTER_NOTICES_MS = 10_000;
const REPLAY_SWEEP_MS = 5_000;
/** For grades lost by a worker, which no notification reports. */
const GRADES_MS = 30_000;
const SECRET_SWEEP_MS = 60_000;
const PARTITIONS_MS = 3_600_000;
/** In ten minutes, 1,000 events a second with two keys each make a million keys. */
const ROTATIONS_MS = 600_000;
const HEALTH_MS = 1_000;
const FAILURES_MS = 2_000;
const DISABLE_FAILING_MS = 60_000;
const SCHEDULES_MS = 600_000;
const RECONCILE_MS = 5_000;
const LAG_MS = 5_000;
const FUTURE_INSTANTS_MS = 20_000;
const PRESENCE_MS = 1_000;
const WORKER_DEAD_AFTER_MS = 3_500;
const ERASURE_MS = 5_000;
const STATUS_LISTS_MS = 60_000;
const STATUS_LIST_ROWS = 5_000;
/** Name of the job that each notice wakes. */
export const REVOCATION_NOTICES_JOB = "revocation notices";
/** For notices whose notification was lost. */
const REVOCATION_NOTICES_MS = 1_000;

export interface UpkeepServices {
  /** This worker's id. */
  readonly worker: string;
  readonly options: WorkerProcessOptions;
  readonly pool: Pool;
  /** Role signet_rotator. */
  readonly rotatorPool: Pool;
  /** Role signet_operator. */
  readonly operatorPool: Pool;
  /** Role signet_audit. */
  readonly auditPool: Pool;
  /** Of a cell that is not the home cell: connections there. */
  readonly home: Pool | undefined;
  readonly keyring: Keyring;
  readonly clock: GuardedClock;
  readonly temporal: Client;
  readonly engine: Engine;
  readonly dispatcher: Dispatcher;
}

/** The other live workers. Presumed until the first beat. */
interface Company {
  alone: boolean;
  /** Whether this worker does what one of them has to do. */
  first: boolean;
}

/** Span over which the rate of attempts is measured, in beats. */
const RATE_BEATS = 5;

/** Returns the function that measures this worker's attempts per second, once per beat. */
function attemptRate(clock: GuardedClock): () => Promise<number> {
  const beats: { readonly atMs: number; readonly attempts: number }[] = [];
  return async () => {
    const { values } = await metrics.attempts.get();
    const last = { atMs: clock.now(), attempts: values.reduce((sum, { value }) => sum + value, 0) };
    beats.push(last);
    const [first = last] = beats.splice(0, Math.max(0, beats.length - RATE_BEATS));
    const seconds = (last.atMs - first.atMs) / 1_000;
    return seconds > 0 ? (last.attempts - first.attempts) / seconds : 0;
  };
}

/** Live workers share the rate of claims, the notifications, and the claims of dead workers. */
function presence(
  { pool, clock, worker, dispatcher, options: { log } }: UpkeepServices,
  company: Company,
): UpkeepJob {
  const rate = attemptRate(clock);
  return {
    name: "presence",
    everyMs: PRESENCE_MS,
    run: async () => {
      const now = clock.now();
      const deadBefore = new Date(now - WORKER_DEAD_AFTER_MS);
      const { dead, ...workers } = await beatWorker(pool, {
        id: worker,
        now: new Date(now),
        deadBefore,
        attemptsPerSecond: await rate(),
      });
      dispatcher.shareWith(workers);
      company.alone = workers.live === 1;
      company.first = workers.rank === 0;
      await handBackOfDead({ pool, log }, dead);
    },
  };
}

/** Exchanges the health of endpoints with other workers. Without others it only writes, for ingest and for later ones. */
function healthExchange({ pool, clock, engine }: UpkeepServices, company: Company): UpkeepJob {
  return {
    name: "endpoint health",
    everyMs: HEALTH_MS,
    run: async () => {
      await writeHealth(pool, engine.health.takeChanges());
      const now = clock.now();
      engine.health.merge(company.alone ? [] : await readHealth(pool, new Date(now)), now);
    },
  };
}

/** Disables endpoints that have failed for days; checks more often if the limit is short. */
function endpointFailures({
  pool,
  keyring,
  clock,
  engine,
  options: { config, log },
}: UpkeepServices): readonly UpkeepJob[] {
  const { deadLetterMs, autoDisableAfterMs: afterMs } = config;
  return [
    {
      name: "endpoint failures",
      everyMs: FAILURES_MS,
      run: async () => await writeFailures(pool, engine.failures),
      end: async () => await writeFailures(pool, engine.failures),
    },
    {
      name: "failing endpoints",
      everyMs: Math.min(DISABLE_FAILING_MS, Math.max(FAILURES_MS, afterMs / 100)),
      run: async () =>
        await disableFailing({ pool, keyring, clock, randomBytes, deadLetterMs, log, afterMs }),
    },
  ];
}

/**
 * Gives overdue deliveries and dead letters a new workflow if theirs is gone. One worker compares the dead letters: Temporal
 * limits how often a namespace is searched.
 */
function reconciliation(
  { pool, clock, temporal: client, options: { log } }: UpkeepServices,
  company: Company,
): readonly UpkeepJob[] {
  const reconciler = new Reconciler({ pool, client, clock, log });
  const letters = new LetterReconciler({ pool, client, clock, log });
  return [
    {
      name: "reconciliation",
      everyMs: RECONCILE_MS,
      run: async () => {
        const { moved, late } = await reconciler.reconcile();
        metrics.movedDeliveries.inc(moved);
        metrics.lateDeliveries.set(late);
      },
    },
    {
      name: "reconciliation of dead letters",
      everyMs: RECONCILE_MS,
      run: async () => metrics.uncarriedDeadLetters.set(company.first ? await letters.reconcile() : 0),
    },
  ];
}

/** Removes the rest of erased tenants, and ends the workflows of their deliveries. */
function erasure({ pool, clock, temporal, options: { log } }: UpkeepServices): UpkeepJob {
  const releaser = new Releaser(temporal, machineTimers, log);
  return {
    name: "erasure",
    everyMs: ERASURE_MS,
    run: async () => await eraseTenants({ pool, releaser, clock, log }),
    end: async () => await releaser.drain(),
  };
}

/** Separate from the reconciliation, which needs Temporal: the lag matters most while Temporal is down. */
function lag({ pool, clock }: UpkeepServices): UpkeepJob {
  return {
    name: "lag",
    everyMs: LAG_MS,
    run: async () => {
      const found = await readLag(pool, new Date(clock.now()));
      metrics.oldestUnattempted.set(found.oldestUnattemptedSeconds);
      metrics.mostOverdue.set(found.mostOverdueSeconds);
      const { degraded, failing } = await countUnhealthy(pool);
      metrics.unhealthyEndpoints.set({ health: "degraded" }, degraded);
      metrics.unhealthyEndpoints.set({ health: "failing" }, failing);
    },
  };
}

/** Starts replay jobs that should run and do not. */
function replaySweep({ pool, clock, temporal, options: { log } }: UpkeepServices): UpkeepJob {
  const starter = createReplayStarter(temporal);
  return {
    name: "replay sweep",
    everyMs: REPLAY_SWEEP_MS,
    run: async () => await sweepReplays({ pool, starter, clock, randomBytes, log }),
  };
}

/** Runs requested grades of receivers. */
function grading({ engine: { grades } }: UpkeepServices): UpkeepJob {
  return {
    name: "grades",
    everyMs: GRADES_MS,
    run: async () => await grades.poll(),
    end: async () => await grades.stop(),
  };
}

/** Folds counts of dead letters, and notifies tenants. */
function deadLetterNews({ pool, keyring, clock, options: { config } }: UpkeepServices): UpkeepJob[] {
  const { deadLetterMs } = config;
  return [
    {
      name: "dead letter counts",
      everyMs: DEAD_LETTER_COUNTS_MS,
      idleMs: DEAD_LETTER_COUNTS_IDLE_MS,
      run: async () => await foldDeadLetters({ pool, clock }),
    },
    {
      name: "dead letter notices",
      everyMs: DEAD_LETTER_NOTICES_MS,
      run: async () => await publishNotices({ pool, keyring, clock, randomBytes, deadLetterMs }),
    },
  ];
}

/** Folds the counts of deliveries, reports endpoints that begin or cease to fail, and counts what an upgrade found. */
function deliveryCounts({ pool, keyring, clock, options: { config } }: UpkeepServices): readonly UpkeepJob[] {
  const { deadLetterMs } = config;
  return [
    {
      name: "delivery counts",
      everyMs: DELIVERY_COUNTS_MS,
      idleMs: DELIVERY_COUNTS_IDLE_MS,
      run: async () => await foldDeliveryChanges({ pool, keyring, clock, randomBytes, deadLetterMs }),
    },
    {
      name: "stored deliveries",
      everyMs: STORED_COUNTS_MS,
      idleMs: STORED_COUNTS_IDLE_MS,
      run: async () => {
        const now = new Date(clock.now());
        const counted = await countStoredFor(STORED_COUNTS_WORK_MS, pool, now, () => performance.now());
        metrics.uncountedHours.set(await countUncounted(pool, now));
        return counted;
      },
    },
  ];
}

/** Brings impossible instants back; retries only when some may exist, since that reads them all. */
function futureInstants({ pool, clock, options: { log } }: UpkeepServices): UpkeepJob {
  let offsetMs = Number.POSITIVE_INFINITY;
  return {
    name: "future instants",
    everyMs: FUTURE_INSTANTS_MS,
    run: async () => {
      const nowMs = clock.now();
      let count = await bringBackInstants(pool, nowMs);
      const before = offsetMs;
      offsetMs = nowMs - performance.now();
      if (offsetMs < before - CLOCK_SKEW_MAX_MS) {
        count += await bringBackCycles(pool, nowMs);
      }
      if (count > 0) {
        log.warn({ count }, "reset future instants written by a wrong clock");
      }
    },
  };
}

/** Removes ended status lists. A list of a million tokens takes 200 statements. */
function statusLists({ pool, clock }: UpkeepServices): UpkeepJob {
  return {
    name: "status lists",
    everyMs: STATUS_LISTS_MS,
    run: async () => {
      const before = new Date(clock.now() - LIST_ENDS_MS);
      while ((await forgetStatusLists(pool, before, STATUS_LIST_ROWS)) > 0);
    },
  };
}

/** Publishes the events of revocations. */
function revocationNotices({
  operatorPool: pool,
  keyring,
  clock,
  options: { config },
}: UpkeepServices): UpkeepJob {
  const { deadLetterMs } = config;
  const onlyIfTaken = isAway(cellsOf(config));
  return {
    name: REVOCATION_NOTICES_JOB,
    everyMs: REVOCATION_NOTICES_MS,
    run: async () =>
      await publishRevocationNotices({ pool, keyring, clock, randomBytes, deadLetterMs, onlyIfTaken }),
  };
}

/** Jobs that run when due. */
function dueWork(parts: UpkeepServices, company: Company): readonly UpkeepJob[] {
  const {
    pool,
    clock,
    temporal,
    options: { config, log },
  } = parts;
  const cells = cellsOf(config);
  const away = isAway(cells) ? cells : undefined;
  const atHome = away === undefined && cells !== undefined;
  return [
    futureInstants(parts),
    ...reconciliation(parts, company),
    erasure(parts),
    {
      name: "schedules",
      everyMs: SCHEDULES_MS,
      run: async () => await ensureSchedules(temporal, away === undefined),
    },
    ...(atHome ? [cellLogs({ cells, pool: parts.operatorPool })] : []),
    healthExchange(parts, company),
    ...endpointFailures(parts),
    ...verificationJobs({ ...parts, client: temporal }),
    replaySweep(parts),
    grading(parts),
    ...deadLetterNews(parts),
    ...deliveryCounts(parts),
    revocationNotices(parts),
    statusLists(parts),
    {
      name: "endpoint secrets",
      everyMs: SECRET_SWEEP_MS,
      run: async () => {
        const services = { pool, keyring: parts.keyring, clock, randomBytes, log };
        await sweepSecrets(services);
        await rotateOnSchedule({ ...services, deadLetterMs: config.deadLetterMs });
      },
    },
    {
      name: "partitions",
      everyMs: PARTITIONS_MS,
      run: async () => await ensurePartitions(pool, clock.now(), { timers: machineTimers }),
    },
    {
      name: "tables of keys",
      everyMs: ROTATIONS_MS,
      run: async () => await rotateTables(pool, clock.now()),
    },
  ];
}

/** Jobs of a cell that is not the home cell. Nothing in them is due, so they go on while the clock is wrong. */
function homeWork({ home, options: { config, log }, ...parts }: UpkeepServices): readonly UpkeepJob[] {
  const cells = cellsOf(config);
  return home !== undefined && isAway(cells)
    ? homeJobs({ ...parts, config, cell: cells.own, home, log })
    : [];
}

/** Starts the jobs. */
export function startWorkerUpkeep(parts: UpkeepServices): Upkeep {
  const {
    clock,
    options: { config, log },
  } = parts;
  const company: Company = { alone: false, first: false };
  return new Upkeep(
    [
      presence(parts, company),
      lag(parts),
      ...openMeasures({ ...parts, retentionDays: config.retentionDays }, log),
      ...dueWork(parts, company).map((job) => whileRight(clock, job)),
      ...homeWork(parts),
    ],
    machineTimers,
    log,
  );
}
