/** The periodic jobs of a worker process. */
import { cellLogs } from "#cells/cell-logs.ts";
import { homeJobs } from "#cells/home-cell.ts";
import { checkpointAgeJob } from "#compliance/sign-checkpoint.ts";
import { CellClock } from "#database/database-clock.ts";
import { partitionJobs } from "#database/repositories/partitions.ts";
import { futureInstantsJob } from "#database/repositories/webhooks/future-instants.ts";
import { isAway } from "#domain/regions.ts";
import { clockSkewJob, homeSkewJob, whileRight } from "#observability/clock-skew.ts";
import { Upkeep, type UpkeepJob } from "#runtime/upkeep.ts";
import { schedulesJob } from "#temporal/schedules.ts";
import { overdueRotationsJob } from "#tokens/credentials/rotation-sweep.ts";
import { statusListsJob } from "#tokens/status-lists/places.ts";
import { failureJobs } from "#webhooks/endpoints/disable-failing.ts";
import { LostVerifications } from "#webhooks/endpoints/lost-verifications.ts";
import { endpointSecretsJob } from "#webhooks/endpoints/secret-sweep.ts";
import { createPacedVerification, createVerification } from "#webhooks/endpoints/verification.ts";
import { verificationSweepJob } from "#webhooks/endpoints/verification-sweep.ts";
import { storedCountsJob } from "#webhooks/engine/count-stored.ts";
import { deadLetterJobs } from "#webhooks/engine/dead-letter-notices.ts";
import { deliveryCountsJob } from "#webhooks/engine/delivery-counts.ts";
import { LetterReconciler } from "#webhooks/engine/letter-reconciler.ts";
import { Presence } from "#webhooks/engine/presence.ts";
import { Reconciler } from "#webhooks/engine/reconciler.ts";
import { Releaser } from "#webhooks/engine/release.ts";
import { measuringJobs } from "#webhooks/measures.ts";
import { healthJob } from "#webhooks/pacing/endpoint-health.ts";
import { kickReplay } from "#webhooks/replay/replay-starter.ts";
import { replaySweepJob } from "#webhooks/replay/replay-sweep.ts";
import { erasureJob } from "#webhooks/retention/erase-tenants.ts";
import { revocationNoticesJob } from "#webhooks/revocation-notices.ts";
import type { WorkerServices } from "./services.ts";

/** Jobs that run when something is due. */
function dueJobs(services: WorkerServices, presence: Presence): readonly UpkeepJob[] {
  const { config, cells, pool, client, engine, keyring, clock, timers, randomBytes, deadLetterMs, log } =
    services;
  const { operatorPool } = services;
  const away = isAway(cells);
  const { verificationsPerSecond: perSecond } = config;
  const verification = createPacedVerification(createVerification(client, Math.random), perSecond, timers);
  return [
    futureInstantsJob(services),
    new Reconciler(services).job,
    new LetterReconciler(services).job(presence),
    erasureJob({ pool, releaser: new Releaser(client, timers, log), clock, log }),
    schedulesJob(client, !away),
    ...(cells === undefined || away ? [] : [cellLogs({ cells, pool: operatorPool })]),
    healthJob(engine.health, services, presence),
    ...failureJobs(services, engine.failures, config.autoDisableAfterMs),
    verificationSweepJob({ pool, verification, perSecond, clock, log }),
    new LostVerifications(services).job,
    replaySweepJob({ pool, kick: async (job) => await kickReplay(client, job), clock, randomBytes, log }),
    engine.grades.job,
    ...deadLetterJobs(services),
    deliveryCountsJob(services),
    storedCountsJob(services),
    revocationNoticesJob({
      pool: operatorPool,
      keyring,
      clock,
      randomBytes,
      deadLetterMs,
      onlyIfTaken: away,
    }),
    statusListsJob(services),
    endpointSecretsJob(services),
    ...partitionJobs(services),
  ];
}

/** Jobs of a cell that is not the home cell. Nothing in them is due, so they go on while the clock is wrong. */
function jobsOfCell(services: WorkerServices): readonly UpkeepJob[] {
  const { cells, home, operatorPool, checkpoints, keyring, clock, log } = services;
  const { auditPool } = checkpoints;
  return home !== undefined && isAway(cells)
    ? homeJobs({ cell: cells.own, home, operatorPool, auditPool, keyring, clock, log })
    : [];
}

/** Starts the jobs. */
export function startWorkerUpkeep(services: WorkerServices): Upkeep {
  const { config, pool, clock, timers, log } = services;
  const presence = new Presence(services);
  const jobs = [
    presence.job,
    ...measuringJobs({ pool, clock, retentionDays: config.retentionDays }),
    checkpointAgeJob(services.checkpoints),
    overdueRotationsJob(services),
    clockSkewJob(clock, log),
    ...(clock instanceof CellClock ? [homeSkewJob(clock, log)] : []),
    ...dueJobs(services, presence).map((job) => whileRight(clock, job)),
    ...jobsOfCell(services),
  ];
  return new Upkeep(jobs, timers, log);
}
