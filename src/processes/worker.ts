/** The worker process: outbox, workflows, activities, upkeep. */
import type { WorkerProcessOptions } from "./worker/options.ts";
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { NativeConnection } from "@temporalio/worker";
import { createDeliverActivities } from "#activities/deliver.ts";
import { createCheckpointActivities } from "#activities/checkpoint.ts";
import { createPurgeActivities } from "#activities/purge.ts";
import { createReplayActivities } from "#activities/replay.ts";
import { createRotateActivities } from "#activities/rotate.ts";
import { createSigningKeyActivities } from "#activities/signing-keys.ts";
import { createVerifyActivities } from "#activities/verify.ts";
import type { CheckpointSigner } from "#compliance/sign-checkpoint.ts";
import { cellsOf } from "#config/cell-settings.ts";
import { withoutPooler } from "#config/database-settings.ts";
import { loadServiceSecrets } from "#crypto/service-secrets.ts";
import { requireUsableDatabase } from "#database/access.ts";
import { openDatabaseClock } from "#database/database-clock.ts";
import { listen } from "#database/listener.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { databaseReadiness } from "#database/readiness.ts";
import { GRADES_CHANNEL } from "#database/repositories/endpoints/endpoint-grades.ts";
import { OUTBOX_CHANNEL } from "#database/repositories/webhooks/events.ts";
import type { Dispatcher } from "#webhooks/engine/dispatcher.ts";
import { createEngine, type Engine } from "./engine.ts";
import { handBackOwn } from "#webhooks/engine/hand-back.ts";
import type { GuardedClock } from "#domain/clock.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import { newId } from "#domain/ids.ts";
import { isAway } from "#domain/regions.ts";
import { clockReadiness } from "#observability/clock-skew.ts";
import type { Logger } from "#observability/logger.ts";
import { type WorkerReplays, createWorkerReplays } from "./worker/replays.ts";
import { NOTICES_CHANNEL } from "#database/repositories/tokens/revocation-notices.ts";
import { SIGNING_KEYS_CHANNEL } from "#database/repositories/tokens/signing-keys.ts";
import type { KeyStore } from "#tokens/signing-keys/key-store.ts";
import type { SigningKeyServices } from "#tokens/signing-keys/rotate.ts";
import { loadWorkflowBundle } from "#temporal/bundle.ts";
import { temporalReadiness } from "#temporal/readiness.ts";
import { checkNamespace, temporalOptions } from "#temporal/client.ts";
import { createDataConverter } from "#temporal/codec.ts";
import type { Keyring } from "#crypto/keyring.ts";
import { openCellClock, openHomePool } from "#cells/home-cell.ts";
import { connectNative, createNativeClient } from "#temporal/native-client.ts";
import { ReplacedConnection } from "#temporal/replaced-connection.ts";
import { installTemporalRuntime } from "#temporal/runtime.ts";
import { isPatched, reportUnknownSdk } from "#temporal/sdk-patches.ts";
import { whyUnreachable } from "#temporal/unreachable.ts";
import { useLeanWorkflowThreads } from "#temporal/workflow-threads.ts";
import { Workers } from "#temporal/workers.ts";
import type { Config } from "#config/config.ts";
import { workerVersion } from "#config/worker-versioning.ts";
import { rotationRules } from "#config/rotation-settings.ts";
import { loadCheckpointSigning, openCheckpointSigner, requestCheckpoints } from "./worker/checkpoints.ts";
import { openRotatorPool } from "./rotation.ts";
import { keyAlgorithms, openSetKeys } from "./signing-keys.ts";
import { messageOf } from "#runtime/thrown.ts";
import { Upkeep } from "#runtime/upkeep.ts";
import type { RunningProcess } from "./with-metrics.ts";
import { REVOCATION_NOTICES_JOB, startWorkerUpkeep } from "./worker/upkeep.ts";

const CONNECT_RETRY_MS = 1_000;
/** After this time, workers have left a replaced connection: core gives it up after 45 s. */
const REPLACED_LAST_MS = 60_000;

export interface WorkerProcess extends RunningProcess {
  /** Rejects on a worker's fatal failure: the process should exit and be restarted. */
  readonly failed: Promise<never>;
  /** Stops claiming, finishes and records work in progress, closes connections. */
  close(): Promise<void>;
}

/** Waits for Temporal without limit: a worker may start first. */
async function connect({ config, log, stopping }: WorkerProcessOptions): Promise<NativeConnection> {
  const temporal = temporalOptions(config);
  for (;;) {
    try {
      return await connectNative(temporal);
    } catch (error) {
      stopping?.throwIfAborted();
      const reasons = [messageOf(await whyUnreachable(temporal, error))];
      log.warn({ reasons, address: temporal.address }, "Temporal cannot be reached yet");
      await delay(CONNECT_RETRY_MS, undefined, stopping === undefined ? {} : { signal: stopping });
    }
  }
}

/** A connection that is replaced when it dies. */
async function connectReplaced(options: WorkerProcessOptions): Promise<ReplacedConnection<NativeConnection>> {
  const temporal = temporalOptions(options.config);
  return new ReplacedConnection(await connect(options), {
    timers: machineTimers,
    apiKey: temporal.apiKey,
    connect: async () => await connectNative(temporal),
    probe: async (connection) => await checkNamespace(createNativeClient(connection, temporal.namespace)),
    callsLastMs: REPLACED_LAST_MS,
    log: options.log,
  });
}

interface WorkerServices {
  readonly clock: GuardedClock;
  readonly engine: Engine;
  readonly pool: Pool;
  readonly rotatorPool: Pool;
  readonly connection: NativeConnection;
  readonly keyring: Keyring;
  readonly signingKeys: SigningKeyServices;
  readonly checkpoints: CheckpointSigner;
  readonly replays: WorkerReplays;
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
  { config, log, workflowBundle }: WorkerProcessOptions,
  {
    clock,
    engine,
    pool,
    rotatorPool,
    connection,
    keyring,
    signingKeys,
    checkpoints,
    replays,
  }: WorkerServices,
): Promise<Workers> {
  const { attemptFirst, attempt, settle, ...requests } = createDeliverActivities({
    attempts: engine.attempts,
    carriers: engine.carriers,
  });
  const pings = createVerifyActivities(engine.challenge);
  return await Workers.start({
    connection,
    namespace: config.temporalNamespace,
    bundle: workflowBundle ?? (await loadWorkflowBundle()),
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
          ...createReplayActivities(replays.runner),
          ...createSigningKeyActivities(signingKeys),
          ...createCheckpointActivities(checkpoints, log),
          ...createPurgeActivities({
            pool,
            clock,
            log,
            retentionDays: config.retentionDays,
            timers: machineTimers,
          }),
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
  { config, log }: WorkerProcessOptions,
  dispatcher: Pick<Dispatcher, "notified">,
  {
    grades,
    setKeys,
    upkeep,
  }: Pick<Engine, "grades"> & { readonly setKeys: Pick<KeyStore, "refresh">; readonly upkeep: Upkeep },
): () => Promise<void> {
  const readKeys = (): void => {
    setKeys
      .refresh()
      .catch((error: unknown) => log.warn({ err: error }, "changed signing keys could not be read"));
  };
  return listen({
    timers: machineTimers,
    url: config.databaseUrl,
    channels: {
      [OUTBOX_CHANNEL]: (payload) => dispatcher.notified(payload ?? ""),
      [GRADES_CHANNEL]: () => grades.wake(),
      [SIGNING_KEYS_CHANNEL]: readKeys,
      [NOTICES_CHANNEL]: () => upkeep.wake(REVOCATION_NOTICES_JOB),
    },
    log,
  });
}

interface Work {
  readonly pool: Pool;
  readonly log: Logger;
  readonly worker: string;
  readonly dispatcher: Dispatcher;
  readonly workers: Workers;
  readonly engine: Engine;
  readonly replays: WorkerReplays;
  readonly upkeep: Pick<Upkeep, "stop">;
}

/** Finishes work in progress; hands unstarted work to other workers at once. */
async function endWork(work: Work): Promise<void> {
  const { worker, dispatcher, workers, engine, replays, upkeep } = work;
  await dispatcher.stop();
  const stopped = workers.stop();
  // Before requests in flight have ended: they may take up to their deadline.
  await handBackOwn(work, worker, engine.attempts.stopAccepting());
  await stopped;
  await Promise.all([engine.drain(), replays.drain()]);
  // Heartbeats continue until here: other workers take the claims of a silent one.
  await upkeep.stop();
  await handBackOwn(work, worker);
}

function logStarted({ config, log }: WorkerProcessOptions): void {
  const version = workerVersion(config);
  log.info(
    { temporal: config.temporalAddress, deployment: version?.deploymentName, build_id: version?.buildId },
    "worker started",
  );
}

/** Opens the clock. In a cell, it must agree with that of the home cell, whose connections come along. */
async function openClock(
  { config, log }: WorkerProcessOptions,
  pool: Pool,
): Promise<{ readonly clock: GuardedClock; readonly home: Pool | undefined }> {
  const own = await openDatabaseClock(pool, machineTimers);
  const home = isAway(cellsOf(config)) ? openHomePool(config, log) : undefined;
  return { clock: home === undefined ? own : await openCellClock(own, home, machineTimers, log), home };
}

/** Starts a worker process. Resolves when it polls. */
export async function startWorker(given: WorkerProcessOptions): Promise<WorkerProcess> {
  // Its statements are prepared by name, and its claims need their plans.
  const options = { ...given, config: withoutPooler(given.config) };
  const { config, log } = options;
  await installTemporalRuntime(log);
  const { keyring } = await loadServiceSecrets(config, randomBytes, machineTimers);
  const means = await loadCheckpointSigning(config, randomBytes, log);
  reportUnknownSdk(config, log);
  const stuck = watchWorkflowThreads(config);
  const { databaseUrl: url, databaseConnections: max } = config;
  const pool = createPool({ url, role: "signet_worker", max, log });
  const rotatorPool = openRotatorPool(options);
  await requireUsableDatabase(pool, config, given.config);
  const { clock, home } = await openClock(options, pool);
  const operatorPool = createPool({ url, role: "signet_operator", max: 2, log });
  const algs = keyAlgorithms(config);
  const signingKeys = { pool: operatorPool, keyring, clock, timers: machineTimers, randomBytes, algs };
  const checkpoints = await openCheckpointSigner(means, { config, pool, operatorPool, clock, log });
  let hint: (count: number) => void = () => undefined;
  const worker = newId("key", clock.now(), randomBytes);
  const pools = { worker: pool, operator: operatorPool };
  const setKeys = await openSetKeys({ config, pools, keyring, away: isAway(cellsOf(config)), clock, log });
  const parts = { worker, config, pool, keyring, setKeys: () => setKeys.signingKey(), clock, log };
  const engine = createEngine(parts, () => hint(1));
  const replaced = await connectReplaced(options);
  const { connection } = replaced;
  const temporal = createNativeClient(connection, config.temporalNamespace, createDataConverter(keyring));
  const replays = createWorkerReplays({ pool, clock, temporal, log, onQueued: () => hint(1) });
  const shared = { clock, engine, pool, rotatorPool, connection, keyring, signingKeys, checkpoints, replays };
  const workers = await runWorkers(options, shared).catch(async (error: unknown) => {
    throw await whyUnreachable(temporalOptions(config), error);
  });
  const dispatcher = engine.createDispatcher(temporal);
  const watching = new Upkeep([replaced.watch(workers, dispatcher)], machineTimers, log);
  hint = (count) => dispatcher.hint(count);
  const revocations = requestCheckpoints(url, temporal, log);
  const upkeep = startWorkerUpkeep({
    worker,
    options,
    ...shared,
    temporal,
    operatorPool,
    auditPool: checkpoints.auditPool,
    home,
    dispatcher,
  });
  const stopListening = listenForWork(options, dispatcher, { ...engine, setKeys, upkeep });
  dispatcher.start();
  const endOffers = options.handOver?.begin(dispatcher);
  logStarted(options);
  return {
    readiness: [
      databaseReadiness({ pools: [pool], writes: true, timers: machineTimers }),
      temporalReadiness(temporal, machineTimers.monotonic),
      clockReadiness(clock),
    ],
    failed: Promise.race([stuck, workers.run.then(async () => await new Promise<never>(() => undefined))]),
    close: async () => {
      endOffers?.();
      await Promise.all([stopListening(), revocations.stop(), watching.stop()]);
      await endWork({ pool, log, worker, dispatcher, workers, engine, replays, upkeep });
      await setKeys.close();
      await connection.close();
      await Promise.all([pool.end(), rotatorPool.end(), operatorPool.end(), checkpoints.close()]);
    },
  };
}
