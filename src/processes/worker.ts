/** The worker process: outbox, workflows, activities, upkeep. */
import { createDeliverActivities } from "#activities/deliver.ts";
import { createCheckpointActivities } from "#activities/checkpoint.ts";
import { createPurgeActivities } from "#activities/purge.ts";
import { createReplayActivities } from "#activities/replay.ts";
import { createRotateActivities } from "#activities/rotate.ts";
import { createSigningKeyActivities } from "#activities/signing-keys.ts";
import { createVerifyActivities } from "#activities/verify.ts";
import type { Config } from "#config/config.ts";
import { rotationRules } from "#config/rotation-settings.ts";
import { workerVersion } from "#config/worker-versioning.ts";
import { listen } from "#database/listener.ts";
import { databaseReadiness } from "#database/readiness.ts";
import { GRADES_CHANNEL } from "#database/repositories/endpoints/endpoint-grades.ts";
import { NOTICES_CHANNEL } from "#database/repositories/tokens/revocation-notices.ts";
import { SIGNING_KEYS_CHANNEL } from "#database/repositories/tokens/signing-keys.ts";
import { OUTBOX_CHANNEL } from "#database/repositories/webhooks/events.ts";
import type { GuardedClock } from "#domain/clock.ts";
import { clockReadiness } from "#observability/clock-skew.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import { Upkeep } from "#runtime/upkeep.ts";
import { loadWorkflowBundle } from "#temporal/bundle.ts";
import { requestCheckpoints } from "#temporal/checkpoint-requests.ts";
import { temporalOptions } from "#temporal/client.ts";
import { createDataConverter } from "#temporal/codec.ts";
import { temporalReadiness } from "#temporal/readiness.ts";
import { isPatched } from "#temporal/sdk-patches.ts";
import { whyUnreachable } from "#temporal/unreachable.ts";
import { useLeanWorkflowThreads } from "#temporal/workflow-threads.ts";
import { Workers } from "#temporal/workers.ts";
import { handBackOwn } from "#webhooks/engine/hand-back.ts";
import { REVOCATION_NOTICES_JOB } from "#webhooks/revocation-notices.ts";
import { keyAlgorithms } from "./signing-keys.ts";
import type { RunningProcess } from "./with-metrics.ts";
import { openServices, type WorkerProcessOptions, type WorkerServices } from "./worker/services.ts";
import { startWorkerUpkeep } from "./worker/upkeep.ts";

export interface WorkerProcess extends RunningProcess {
  /** Rejects on a worker's fatal failure: the process should exit and be restarted. */
  readonly failed: Promise<never>;
  /** Stops claiming, finishes and records work in progress, closes connections. */
  close(): Promise<void>;
}

/** Makes activities fail at once while the clock is wrong: Temporal retries them, also on other workers. */
function guarded<T extends object>(activities: T, clock: GuardedClock): T {
  return Object.fromEntries(
    Object.entries(activities).map(([name, activity]: [string, (...input: unknown[]) => unknown]) => [
      name,
      (...input: unknown[]) => {
        clock.requireRight();
        return activity(...input);
      },
    ]),
  ) as T;
}

async function runWorkers(
  services: WorkerServices,
  bundle: WorkerProcessOptions["workflowBundle"],
): Promise<Workers> {
  const { config, pool, rotatorPool, operatorPool, keyring, engine, releaser, clock, timers } = services;
  const { randomBytes, log } = services;
  const { retentionDays } = config;
  const algs = keyAlgorithms(config);
  const onQueued = (): void => services.dispatcher.requeued();
  const { attemptFirst, attempt, settle, ...requests } = createDeliverActivities({
    attempts: engine.attempts,
    carriers: engine.carriers,
  });
  const pings = createVerifyActivities(engine.pings);
  return await Workers.start({
    connection: services.connection.connection,
    namespace: config.temporalNamespace,
    bundle: bundle ?? (await loadWorkflowBundle()),
    dataConverter: createDataConverter(keyring),
    patched: isPatched(config),
    version: workerVersion(config),
    cachedWorkflows: config.cachedWorkflows,
    activities: {
      deliveries: guarded({ attemptFirst }, clock),
      slow: guarded({ attempt, settle }, clock),
      verification: guarded(pings, clock),
      control: guarded(
        {
          ...requests,
          ...pings,
          ...createReplayActivities({ pool, releaser, clock, randomBytes, log, onQueued }),
          ...createSigningKeyActivities({ pool: operatorPool, keyring, clock, timers, randomBytes, algs }),
          ...createCheckpointActivities(services.checkpoints, log),
          ...createPurgeActivities({ pool, clock, log, retentionDays, timers }),
          ...createRotateActivities({
            pool: rotatorPool,
            rules: rotationRules(config),
            clock,
            randomBytes,
            log,
          }),
        },
        clock,
      ),
    },
  });
}

/** Starts workflow threads without the SDK's watchdog. Rejects when one stops responding. */
async function watchWorkflowThreads(config: Config): Promise<never> {
  return await new Promise<never>((_resolve, reject) => {
    if (!isPatched(config)) {
      return;
    }
    useLeanWorkflowThreads({
      timers: machineTimers,
      onStuck: (silentMs) => reject(new Error(`a workflow thread has not answered for ${silentMs} ms`)),
    });
  });
}

/** Listens for waiting deliveries, grades and notices of revocations, and for changes of the signing keys. */
function listenForWork(
  { config, dispatcher, engine, setKeys, timers, log }: WorkerServices,
  upkeep: Upkeep,
): () => Promise<void> {
  const readKeys = (): void => {
    setKeys
      .refresh()
      .catch((error: unknown) => log.warn({ err: error }, "changed signing keys could not be read"));
  };
  return listen({
    timers,
    url: config.databaseUrl,
    channels: {
      [OUTBOX_CHANNEL]: (payload) => dispatcher.notified(payload ?? ""),
      [GRADES_CHANNEL]: () => engine.grades.wake(),
      [SIGNING_KEYS_CHANNEL]: readKeys,
      [NOTICES_CHANNEL]: () => upkeep.wake(REVOCATION_NOTICES_JOB),
    },
    log,
  });
}

/** Finishes work in progress; hands unstarted work to other workers at once. */
async function endWork(services: WorkerServices, workers: Workers, upkeep: Upkeep): Promise<void> {
  const { worker, dispatcher, engine, releaser } = services;
  await dispatcher.stop();
  const stopped = workers.stop();
  // Before requests in flight have ended: they may take up to their deadline.
  await handBackOwn(services, worker, engine.attempts.stopAccepting());
  await stopped;
  await Promise.all([engine.drain(), releaser.drain()]);
  // Heartbeats continue until here: other workers take the claims of a silent one.
  await upkeep.stop();
  await handBackOwn(services, worker);
}

function logStarted({ config, log }: WorkerServices): void {
  const version = workerVersion(config);
  log.info(
    { temporal: config.temporalAddress, deployment: version?.deploymentName, build_id: version?.buildId },
    "worker started",
  );
}

/** Starts a worker process. Resolves when it polls. */
export async function startWorker(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const stuck = watchWorkflowThreads(options.config);
  const services = await openServices(options);
  const { config, client, connection, dispatcher, setKeys, clock, timers, log } = services;
  const workers = await runWorkers(services, options.workflowBundle).catch(async (error: unknown) => {
    throw await whyUnreachable(temporalOptions(config), error);
  });
  const watching = new Upkeep([connection.watch(workers, dispatcher)], timers, log);
  const revocations = requestCheckpoints(config.databaseUrl, client, timers, log);
  const upkeep = startWorkerUpkeep(services);
  const stopListening = listenForWork(services, upkeep);
  dispatcher.start();
  const endOffers = options.handOver?.begin(dispatcher);
  logStarted(services);
  return {
    readiness: [
      databaseReadiness({ pools: [services.pool], writes: true, timers }),
      temporalReadiness(client, timers.monotonic),
      clockReadiness(clock),
    ],
    failed: Promise.race([stuck, workers.run.then(async () => await new Promise<never>(() => undefined))]),
    close: async () => {
      endOffers?.();
      await Promise.all([stopListening(), revocations.stop(), watching.stop()]);
      await endWork(services, workers, upkeep);
      await setKeys.close();
      await connection.connection.close();
      const { pool, rotatorPool, operatorPool, checkpoints } = services;
      await Promise.all([pool.end(), rotatorPool.end(), operatorPool.end(), checkpoints.close()]);
    },
  };
}
