/** The worker process: outbox, workflows, activities, upkeep. */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { NativeConnection } from "@temporalio/worker";
import { createDeliverActivities } from "../../activities/deliver.ts";
import { createVerifyActivities } from "../../activities/verify.ts";
import { type Config, formatListen } from "../config.ts";
import { createKeyring } from "../crypto/keyring.ts";
import { loadServiceSecrets } from "../crypto/secrets.ts";
import { listen } from "../database/listener.ts";
import { createPool, type Pool } from "../database/pool.ts";
import { OUTBOX_CHANNEL } from "../database/repositories/events.ts";
import { ensurePartitions } from "../database/repositories/partitions.ts";
import { createEngine, type Engine } from "../delivery/engine.ts";
import type { Clock } from "../domain/clock.ts";
import { systemClock } from "../domain/clock.ts";
import { createVerification } from "../endpoints/verification.ts";
import { sweepVerifications } from "../endpoints/verification-sweep.ts";
import type { Logger } from "../observability/logger.ts";
import { loadWorkflowBundle } from "../temporal/bundle.ts";
import { connectNative, createNativeClient } from "../temporal/native-client.ts";
import { installTemporalRuntime } from "../temporal/runtime.ts";
import { startWorkers, type Workers } from "../temporal/workers.ts";
import { startUpkeep } from "../upkeep.ts";

const CONNECT_RETRY_MS = 1_000;
const VERIFICATION_SWEEP_MS = 5_000;
const PARTITIONS_MS = 3_600_000;

export interface WorkerProcess {
  /** Rejects when a worker fails beyond repair: the process should end and be started again. */
  readonly failed: Promise<never>;
  /** Stops claiming, lets what is under way end and be recorded, closes connections. */
  close(): Promise<void>;
}

export interface WorkerProcessOptions {
  readonly config: Config & { readonly databaseUrl: string; readonly temporalAddress: string };
  readonly log: Logger;
}

/** Waits for Temporal as long as it takes: a worker that starts first is not an error. */
async function connect(address: string, log: Logger, stopping: AbortSignal): Promise<NativeConnection> {
  for (;;) {
    try {
      return await connectNative({ address });
    } catch (error) {
      stopping.throwIfAborted();
      log.warn({ err: error, address }, "Temporal cannot be reached yet");
      await delay(CONNECT_RETRY_MS, undefined, { signal: stopping });
    }
  }
}

async function runWorkers(
  { config }: WorkerProcessOptions,
  engine: Engine,
  connection: NativeConnection,
): Promise<Workers> {
  const { attemptFirst, attempt, settle, replay, cancel, expire } = createDeliverActivities({
    attempts: engine.attempts,
    carriers: engine.carriers,
  });
  return await startWorkers({
    connection,
    namespace: config.temporalNamespace,
    bundle: await loadWorkflowBundle(),
    activities: {
      deliveries: { attemptFirst },
      slow: { attempt, settle },
      control: { replay, cancel, expire, ...createVerifyActivities(engine.challenge) },
    },
    concurrency: config.sendConcurrency,
  });
}

function startWorkerUpkeep(
  { config, log }: WorkerProcessOptions,
  { pool, clock, connection }: { pool: Pool; clock: Clock; connection: NativeConnection },
): { stop(): Promise<void> } {
  const verification = createVerification(
    createNativeClient(connection, config.temporalNamespace),
    Math.random,
  );
  return startUpkeep(
    [
      {
        name: "verification sweep",
        everyMs: VERIFICATION_SWEEP_MS,
        run: async () => await sweepVerifications({ pool, verification, clock, log }),
      },
      {
        name: "partitions",
        everyMs: PARTITIONS_MS,
        run: async () => await ensurePartitions(pool, clock.now()),
      },
    ],
    log,
  );
}

/** Starts a worker process and resolves when it polls. */
export async function startWorker(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const { config, log } = options;
  const clock = systemClock;
  const stopping = new AbortController();
  installTemporalRuntime(log);
  const { kek } = await loadServiceSecrets(config, randomBytes);
  const pool = createPool({
    url: config.databaseUrl,
    role: "signet_worker",
    max: config.databaseConnections,
    log,
  });
  let hint: () => void = () => undefined;
  const engine = createEngine(
    { config, pool, keyring: createKeyring({ kek, randomBytes }), clock, log },
    () => hint(),
  );
  const connection = await connect(config.temporalAddress, log, stopping.signal);
  const workers = await runWorkers(options, engine, connection);
  const dispatcher = engine.createDispatcher(createNativeClient(connection, config.temporalNamespace));
  hint = () => dispatcher.hint();
  const listener = listen({
    url: config.databaseUrl,
    channel: OUTBOX_CHANNEL,
    onNotification: () => hint(),
    log,
  });
  const upkeep = startWorkerUpkeep(options, { pool, clock, connection });
  dispatcher.start();
  log.info(
    { temporal: config.temporalAddress, metrics: formatListen(config.metricsListen) },
    "worker started",
  );

  return {
    failed: workers.run.then(async () => await new Promise<never>(() => undefined)),
    close: async () => {
      stopping.abort();
      await listener.stop();
      await upkeep.stop();
      await dispatcher.stop();
      await workers.stop();
      await engine.drain();
      await connection.close();
      await pool.end();
    },
  };
}
