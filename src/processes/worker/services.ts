/** What the parts of a worker process are made of. Each part takes the record, and names the members that it uses. */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "@temporalio/client";
import type { NativeConnection, WorkflowBundleOption } from "@temporalio/worker";
import { openCellClock, openHomePool } from "#cells/home-cell.ts";
import { loadCheckpointSigning, openCheckpointSigner } from "#compliance/open-signer.ts";
import { cellsOf } from "#config/cell-settings.ts";
import type { Config } from "#config/config.ts";
import { withoutPooler } from "#config/database-settings.ts";
import type { Keyring } from "#crypto/keyring.ts";
import { loadServiceSecrets } from "#crypto/service-secrets.ts";
import { requireUsableDatabase } from "#database/access.ts";
import { openDatabaseClock } from "#database/database-clock.ts";
import { createPool, type Pool } from "#database/pool.ts";
import type { GuardedClock, Timers } from "#domain/clock.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import { type Cells, isAway } from "#domain/regions.ts";
import type { Logger } from "#observability/logger.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { messageOf } from "#runtime/thrown.ts";
import { checkNamespace, temporalOptions } from "#temporal/client.ts";
import { createDataConverter } from "#temporal/codec.ts";
import { connectNative, createNativeClient } from "#temporal/native-client.ts";
import { ReplacedConnection } from "#temporal/replaced-connection.ts";
import { installTemporalRuntime } from "#temporal/runtime.ts";
import { reportUnknownSdk } from "#temporal/sdk-patches.ts";
import { whyUnreachable } from "#temporal/unreachable.ts";
import type { KeyStore } from "#tokens/signing-keys/key-store.ts";
import type { Dispatcher } from "#webhooks/engine/dispatcher.ts";
import { Releaser } from "#webhooks/engine/release.ts";
import type { HandOverTo } from "#webhooks/ingest/hand-over.ts";
import { Engine } from "../engine.ts";
import { openRotatorPool } from "../rotation.ts";
import { openSetKeys } from "../signing-keys.ts";

const CONNECT_RETRY_MS = 1_000;
/** After this time, workers have left a replaced connection: core gives it up after 45 s. */
const REPLACED_LAST_MS = 60_000;

/** What a worker process is started with. */
export interface WorkerProcessOptions {
  readonly config: Config & { readonly databaseUrl: string; readonly temporalAddress: string };
  readonly log: Logger;
  /** Aborts the wait for Temporal, and the start. */
  readonly stopping?: AbortSignal;
  /** The workflow code (default: the build's, or the sources', bundled now). */
  readonly workflowBundle?: WorkflowBundleOption;
  /** Where the api of the same process offers new deliveries. */
  readonly handOver?: HandOverTo;
}

/** Collaborators of a worker process, each created once. */
export interface WorkerServices extends Pick<WorkerProcessOptions, "config" | "log"> {
  /** This worker's id. */
  readonly worker: string;
  /** Set if regions have cells of their own. */
  readonly cells: Cells | undefined;
  /** Role signet_worker. */
  readonly pool: Pool;
  /** Role signet_rotator. */
  readonly rotatorPool: Pool;
  /** Role signet_operator. */
  readonly operatorPool: Pool;
  /** Of a cell that is not the home cell: connections there. */
  readonly home: Pool | undefined;
  readonly keyring: Keyring;
  /** Of security events. */
  readonly setKeys: KeyStore;
  readonly checkpoints: Awaited<ReturnType<typeof openCheckpointSigner>>;
  /** The workers' connection to Temporal, which is replaced when it dies. */
  readonly connection: ReplacedConnection<NativeConnection>;
  readonly client: Client;
  readonly engine: Engine;
  readonly dispatcher: Dispatcher;
  /** For workflows whose deliveries were replayed. */
  readonly releaser: Releaser;
  readonly deadLetterMs: number;
  readonly clock: GuardedClock;
  readonly timers: Timers;
  readonly randomBytes: RandomBytes;
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

/** Opens the collaborators, as soon as Temporal answers. The caller closes them. */
export async function openServices(options: WorkerProcessOptions): Promise<WorkerServices> {
  const { log } = options;
  // Its statements are prepared by name, and its claims need their plans.
  const config = withoutPooler(options.config);
  const cells = cellsOf(config);
  const away = isAway(cells);
  await installTemporalRuntime(log);
  const { keyring } = await loadServiceSecrets(config, randomBytes, machineTimers);
  const signing = await loadCheckpointSigning(config, { clock: systemClock, randomBytes }, log);
  reportUnknownSdk(config, log);
  const { databaseUrl: url, databaseConnections: max } = config;
  const pool = createPool({ url, role: "signet_worker", max, log });
  const rotatorPool = openRotatorPool({ config, log });
  await requireUsableDatabase(pool, config, options.config);
  const own = await openDatabaseClock(pool, machineTimers);
  const home = away ? openHomePool(config, log) : undefined;
  const clock = home === undefined ? own : await openCellClock(own, home, machineTimers, log);
  const operatorPool = createPool({ url, role: "signet_operator", max: 2, log });
  const checkpoints = await openCheckpointSigner(signing, { config, pool, operatorPool, clock, log });
  const worker = newId("key", clock.now(), randomBytes);
  const pools = { worker: pool, operator: operatorPool };
  const setKeys = await openSetKeys({ config, pools, keyring, away, clock, log });
  const sending = { worker, config, pool, keyring, setKeys: () => setKeys.signingKey(), clock, log };
  const engine = new Engine(sending, () => dispatcher.requeued());
  const connection = await connectReplaced(options);
  const converter = createDataConverter(keyring);
  const client = createNativeClient(connection.connection, config.temporalNamespace, converter);
  const dispatcher = engine.createDispatcher(client);
  return {
    worker,
    config,
    cells,
    pool,
    rotatorPool,
    operatorPool,
    home,
    keyring,
    setKeys,
    checkpoints,
    connection,
    client,
    engine,
    dispatcher,
    releaser: new Releaser(client, machineTimers, log),
    deadLetterMs: config.deadLetterMs,
    clock,
    timers: machineTimers,
    randomBytes,
    log,
  };
}
