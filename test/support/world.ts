/**
 * A whole service for one test file: a database, a Temporal namespace, a worker. Tests of the engine can bypass the HTTP
 * API. Everything is real.
 */
import { randomBytes } from "node:crypto";
import { Client as TemporalClient, Connection, type WorkflowHandle } from "@temporalio/client";
import { Pool as PgPool } from "pg";
import { inject } from "vitest";
import { type Config, type Environment, loadConfig } from "#config/config.ts";
import { createPool, type Pool } from "#database/pool.ts";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import { ContentKeys } from "#webhooks/ingest/content-keys.ts";
import { type Attempt, DeliveryService } from "#webhooks/engine/delivery-service.ts";
import { EventService } from "#webhooks/ingest/event-service.ts";
import { Releaser } from "#webhooks/engine/release.ts";
import { type HandOver, HandOverTo } from "#webhooks/ingest/hand-over.ts";
import { type AcceptedEvent, Ingest } from "#webhooks/ingest/ingest.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { newId } from "#domain/ids.ts";
import { EndpointService } from "#webhooks/endpoints/endpoint-service.ts";
import { secretAad, secretFingerprint } from "#crypto/endpoint-secret.ts";
import { createVerification } from "#webhooks/endpoints/verification.ts";
import type { ReplayJob } from "#database/repositories/webhooks/replay-jobs.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { type ReplayRequest, ReplayService } from "#webhooks/replay/replay-service.ts";
import { kickReplay } from "#webhooks/replay/replay-starter.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { connectionOptions, temporalOptions } from "#temporal/client.ts";
import { createLogger } from "#observability/logger.ts";
import type { WorkerProcess } from "#processes/worker.ts";
import { eventually } from "./eventually.ts";
import { startTestWorker } from "./in-process-worker.ts";
import { observe, type Observed } from "./failure-report.ts";
import { testKeyring } from "./keyring.ts";
import { checkpointSettings } from "./checkpoints.ts";
import { NO_LIMITS } from "./no-limits.ts";
import { createTestDatabase, testNamespace, type TestDatabase } from "./services.ts";
import { useStarted } from "./started.ts";

export type ReadyConfig = Config & { readonly databaseUrl: string; readonly temporalAddress: string };

export interface TestEndpoint {
  readonly id: string;
  readonly tenantId: string;
  readonly secret: string;
}

export interface World {
  readonly config: ReadyConfig;
  /** Superuser connection, for inspection and set-up. */
  readonly sql: Pick<PgPool, "query" | "connect">;
  readonly temporal: TemporalClient;
  readonly ingest: Ingest;
  readonly events: EventService;
  readonly deliveries: DeliveryService;
  readonly endpoints: EndpointService;
  readonly replays: ReplayService;
  /** Creates a replay job, which {@link ReplayService.kick} or a worker's sweep starts. */
  makeReplay(tenantId: string, request: ReplayRequest): Promise<ReplayJob>;
  /** Environment for child processes of this world. */
  readonly environment: Environment;
  startWorker(): Promise<WorkerProcess>;
  createTenant(): Promise<string>;
  /** Creates a verified endpoint. */
  createEndpoint(tenantId: string, url: string, events?: readonly string[]): Promise<TestEndpoint>;
  /** Publishes one event; resolves with its deliveries. */
  publish(
    tenantId: string,
    data?: unknown,
    type?: string,
  ): Promise<{ event: AcceptedEvent; deliveries: Delivery[] }>;
  /** Waits until the delivery matches. */
  untilDelivery(
    tenantId: string,
    id: string,
    wanted: (delivery: Delivery) => boolean,
    timeoutMs?: number,
  ): Promise<Delivery>;
  /** Waits until the delivery's workflow runs: it starts after the first attempt. */
  workflowOf(tenantId: string, id: string): Promise<WorkflowHandle>;
  attempts(tenantId: string, id: string): Promise<Attempt[]>;
  /** Its log, for the report of a failed test. */
  readonly observed: Observed;
  close(): Promise<void>;
}

/** The caller for tests that call a service directly. */
export const TEST_CALLER = { actor: "credential:crd_test" } as const;

/**
 * Every guarantee holds for a delivery in its own workflow and in one that carries up to 64. A lone delivery has its
 * own at either size, so tests need both only where deliveries of a list affect each other.
 */
export const LIST_SIZES = [1, 64] as const;
export type ListSize = (typeof LIST_SIZES)[number];

export interface WorldOptions {
  /** Length of the retry schedule, in milliseconds (default: 2 s). */
  readonly retryWindowMs?: number;
  readonly deadLetterMs?: number;
  /** Maximum number of deliveries per workflow. */
  readonly listMax?: ListSize;
  readonly environment?: Environment;
  /** A migrated database with data (default: an empty one). Dropped at the end. */
  readonly database?: TestDatabase;
  /** A separate Temporal, which may be down (default: the run's shared one). */
  readonly temporal?: { readonly address: string; readonly namespace: string };
  /** Hands new deliveries to the worker at their insert, as one process does (default: they wait in the outbox). */
  readonly handOver?: {
    /** Between the publisher and the worker. */
    readonly between?: (worker: HandOver) => HandOver;
    /** Between the publisher and the database. */
    readonly pool?: (pool: Pool) => Pool;
  };
}

async function worldConfig(database: TestDatabase, options: WorldOptions): Promise<Environment> {
  const { temporal } = options;
  return {
    ...NO_LIMITS,
    SIGNET_ENV: "development",
    SIGNET_DATABASE_URL: database.url,
    SIGNET_DATABASE_ADMIN_URL: database.adminUrl,
    TEMPORAL_ADDRESS: temporal?.address ?? inject("temporalAddress"),
    TEMPORAL_NAMESPACE: temporal?.namespace ?? (await testNamespace()),
    SIGNET_KEK: randomBytes(32).toString("base64"),
    ...checkpointSettings(),
    SIGNET_PEPPER: randomBytes(32).toString("base64"),
    SIGNET_OPERATOR_TOKEN: randomBytes(32).toString("hex"),
    SIGNET_RETRY_WINDOW_MS: String(options.retryWindowMs ?? 2_000),
    SIGNET_DEAD_LETTER_MS: String(options.deadLetterMs ?? 600_000),
    ...(options.listMax === undefined ? {} : { SIGNET_DELIVERY_BATCH_MAX: String(options.listMax) }),
    SIGNET_LOG_LEVEL: process.env["SIGNET_LOG_LEVEL"] ?? "error",
    ...options.environment,
  };
}

/** Creates a world without workers; close it at the end. */
export async function makeWorld(options: WorldOptions = {}): Promise<World> {
  const database = options.database ?? (await createTestDatabase());
  const environment = await worldConfig(database, options);
  const config = loadConfig(environment) as ReadyConfig;
  const lines: string[] = [];
  const log = createLogger({ level: "debug", destination: { write: (line) => void lines.push(line) } });
  const forget = (): void => void lines.splice(0);
  const observed: Observed = { name: "the world", log: () => lines.join(""), forget };
  observe(observed);
  const clock = systemClock;
  const pool = (role: "signet_api" | "signet_ingest"): Pool =>
    createPool({ url: database.url, role, max: 5, log });
  const pools = { api: pool("signet_api"), ingest: pool("signet_ingest") };
  const sql = new PgPool({ connectionString: database.adminUrl, max: 4 });
  sql.on("error", (error) => log.warn({ err: error }, "the test's connection was lost"));
  const connection = Connection.lazy(connectionOptions(temporalOptions(config)));
  const temporal = new TemporalClient({ connection, namespace: config.temporalNamespace });
  const keyring = testKeyring(config.kek ?? Buffer.alloc(0));
  const { handOver: handing } = options;
  const handOver = handing && new HandOverTo();
  const ingest = new Ingest({
    timers: machineTimers,
    pool: handing?.pool?.(pools.ingest) ?? pools.ingest,
    keys: new ContentKeys({ keyring, clock }),
    clock,
    randomBytes,
    keyBytes: randomBytes,
    deadLetterMs: config.deadLetterMs,
    handOver: handOver && (handing?.between?.(handOver) ?? handOver),
  });
  const releaser = new Releaser(temporal, machineTimers, log);
  const reading = { pool: pools.api, keyring, releaser, clock, randomBytes };
  const deliveries = new DeliveryService(reading);
  const events = new EventService(reading);
  const endpoints = new EndpointService({
    pool: pools.api,
    keyring,
    verification: createVerification(temporal, Math.random),
    checkUrl: (url) => new URL(url),
    endpointsMax: async () => config.endpointsPerTenant,
    headerBrand: config.headerBrand,
    clock,
    randomBytes,
    deadLetterMs: config.deadLetterMs,
    log,
  });
  const replays = new ReplayService({
    pool: pools.api,
    keyring,
    kick: async (job) => await kickReplay(temporal, job),
    clock,
    randomBytes,
    log,
  });
  const workers = new Set<WorkerProcess>();

  const world: World = {
    config,
    sql,
    temporal,
    ingest,
    events,
    deliveries,
    endpoints,
    replays,
    makeReplay: async (tenantId, request) =>
      await tenantTransaction(
        pools.api,
        tenantId,
        async (db) => await replays.create(db, tenantId, request, TEST_CALLER),
      ),
    environment,
    startWorker: async () => {
      const worker = await startTestWorker({ config, log, ...(handOver && { handOver }) });
      workers.add(worker);
      return {
        readiness: worker.readiness,
        failed: worker.failed,
        close: async () => {
          workers.delete(worker);
          await worker.close();
        },
      };
    },
    createTenant: async () => {
      const id = newId("tenant", clock.now(), randomBytes);
      await sql.query(
        "INSERT INTO tenants (id, name, region, data_key, created_at) VALUES ($1, $1, 'eu', $2, now())",
        [id, await keyring.newTenantDataKey(id)],
      );
      return id;
    },
    createEndpoint: async (tenantId, url, events = ["inference.completed"]) => {
      const id = newId("endpoint", clock.now(), randomBytes);
      const secret = generateSecret(randomBytes);
      const { rows } = await sql.query<{ data_key: string }>("SELECT data_key FROM tenants WHERE id = $1", [
        tenantId,
      ]);
      await sql.query(
        `INSERT INTO endpoints (id, tenant_id, url, event_types, state, verification_state, verification_requested_at,
          created_at, updated_at) VALUES ($1, $2, $3, $4, 'ACTIVE', 'VERIFIED', now(), now(), now())`,
        [id, tenantId, url, events],
      );
      await sql.query(
        `INSERT INTO endpoint_secrets (endpoint_id, version, tenant_id, secret, fingerprint, state, created_at)
          VALUES ($1, 1, $2, $3, $4, 'CURRENT', now())`,
        [
          id,
          tenantId,
          await keyring.sealForTenant(rows[0]?.data_key ?? "", tenantId, secretAad(tenantId, id, 1), secret),
          secretFingerprint(secret),
        ],
      );
      return { id, tenantId, secret };
    },
    publish: async (tenantId, data = {}, type = "inference.completed") => {
      const event = await ingest.accept({
        tenantId,
        type,
        data: JSON.stringify(data),
        sourceId: null,
        occurredAt: null,
        keys: [],
      });
      const { rows: page } = await deliveries.list(tenantId, {
        filter: { eventId: event.id },
        before: undefined,
        limit: 100,
      });
      return { event, deliveries: [...page] };
    },
    untilDelivery: async (tenantId, id, wanted, timeoutMs) =>
      await eventually(
        async () => {
          const delivery = await deliveries.find(tenantId, id);
          return wanted(delivery) ? delivery : undefined;
        },
        `delivery ${id}`,
        timeoutMs,
      ),
    workflowOf: async (tenantId, id) =>
      await eventually(async () => {
        const { workflow_id: carrier } = await deliveries.find(tenantId, id);
        const handle = temporal.workflow.getHandle(carrier ?? "none");
        return await handle.describe().then(
          () => handle,
          () => undefined,
        );
      }, `the workflow of ${id}`),
    attempts: async (tenantId, id) =>
      await deliveries.attempts(tenantId, id, { after: { cycle: 0, attempt: 0 }, limit: 1_000 }),
    observed,
    close: async () => {
      await Promise.all([...workers].map(async (worker) => await worker.close()));
      await Promise.all([releaser.drain(), endpoints.drain(), replays.drain()]);
      await connection.close();
      await Promise.all([pools.api.end(), pools.ingest.end(), sql.end()]);
      await database.drop();
    },
  };
  return world;
}

/** Provides a world to the calling test file, created before its tests and closed after them. */
export function useWorld(options: WorldOptions = {}): { readonly current: World } {
  return useStarted("the world", async () => await makeWorld(options));
}

/** What a file may use of the world that it shares. */
export type SharedWorld = Omit<World, "startWorker" | "close">;

let shared: World | undefined;

/**
 * Provides the world that test files of this vitest process share, with one worker. Each file creates its own tenants
 * and expects those of others. Use {@link useWorld} in a file that needs other settings, other workers or none, reads
 * whole tables, or disturbs the database.
 */
export function useSharedWorld(): { readonly current: SharedWorld } {
  return useStarted("the shared world", async () => {
    const joined = shared;
    const world = joined ?? (await makeWorld());
    if (joined === undefined) {
      await world.startWorker();
      shared = world;
    } else {
      observe(world.observed);
    }
    // It ends with the process, by a signal from vitest, and its database with the run's server.
    return { ...world, close: async () => await Promise.resolve() };
  });
}
