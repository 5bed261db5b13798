/** The workers of a worker process, one per task queue, so that slow receivers use only their own slots. */
import { asyncLocalStorage as activityContext } from "@temporalio/activity";
import { totalmem } from "node:os";
import {
  type NativeConnection,
  Worker,
  type WorkerOptions,
  type WorkflowBundleOption,
} from "@temporalio/worker";
import type { WorkflowCreator } from "@temporalio/worker/lib/workflow/interface.js";
import type { DataConverter } from "@temporalio/common";
import type { WorkerVersion } from "#config/worker-versioning.ts";
import { TASK_QUEUES } from "#workflows/messages.ts";
import { useSynchronousContext } from "./call-context.ts";

/** Longer than any request, so that requests in progress at a shutdown end and are recorded. */
const SHUTDOWN_GRACE_MS = 12_000;
/**
 * Memory of a cached workflow late in its retries. Measured: 0.14 MiB after its first attempts, 0.24 after ten. A workflow
 * that another worker goes on with stays here, too: the SDK removes the least recently used, and only beyond the number.
 */
const WORKFLOW_BYTES = 0.4 * 2 ** 20;
/** The rest is for the process itself, and for connections to receivers (docs/operations.md). */
const CACHE_SHARE = 1 / 8;
/** As many as there are slots. Each task of another workflow would wait for a place. */
const CACHED_WORKFLOWS_MIN = 64;
/** More saved no CPU that could be measured. */
const CACHED_WORKFLOWS_MAX = 1_000;
/**
 * Eager start needs free slots in addition to those that pollers reserve. With 12 it never happens; 40 are enough.
 */
const WORKFLOW_SLOTS = 64;
/** One slot per list of first attempts. The dispatcher limits the members. */
const LOCAL_ACTIVITY_SLOTS = 256;
/** Concurrent lists of slow and failing endpoints. Each endpoint also has its own limit. */
const SLOW_SLOTS = 256;
/** Concurrent pings. One that hangs takes five seconds, and a tenant may register 50 endpoints at once. */
const PING_SLOTS = 256;

/** Longer than a live worker needs for its own tasks. Workflows of an ended worker wait this long. */
const STICKY_WAIT = "3 seconds";
/** By default, the SDK forwards a heartbeat only after 80 % of its timeout. A busy machine misses that. */
const HEARTBEATS_APART = "1 second";

/**
 * Returns how many delivery workflows a worker keeps in memory. A task of another one replays the workflow's history.
 *
 * @param memoryBytes what the process may use
 */
export function cachedWorkflows(memoryBytes: number): number {
  const fitting = Math.floor((memoryBytes * CACHE_SHARE) / WORKFLOW_BYTES);
  return Math.min(CACHED_WORKFLOWS_MAX, Math.max(CACHED_WORKFLOWS_MIN, fitting));
}

/** Returns what this process may use, in bytes: the limit of its control group (`memory.max`, `memory.high`), or all memory. */
function usableMemory(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

/** Activities by task queue. Typed as `object`, because each workflow's module types its own. */
export interface QueueActivities {
  /** Local activities of `deliver`. */
  readonly deliveries: object;
  readonly slow: object;
  readonly verification: object;
  readonly control: object;
}

export interface WorkersOptions {
  readonly connection: NativeConnection;
  readonly namespace: string;
  readonly bundle: WorkflowBundleOption;
  readonly dataConverter: DataConverter;
  readonly activities: QueueActivities;
  /** Whether to patch the SDK: activities then have a context in their first turn only, and one thread runs all workflows. */
  readonly patched: boolean;
  /** Absent without Worker Versioning. */
  readonly version?: WorkerVersion | undefined;
  /** Number of delivery workflows in memory; by default what the memory of the process allows. */
  readonly cachedWorkflows?: number | undefined;
}

/**
 * Running workflows move to the current version with their next task: they last for days, and every version must replay
 * the histories of earlier ones anyway.
 */
function versioning(version: WorkerVersion | undefined): Pick<WorkerOptions, "workerDeploymentOptions"> {
  return version === undefined
    ? {}
    : {
        workerDeploymentOptions: {
          useWorkerVersioning: true,
          version,
          defaultVersioningBehavior: "AUTO_UPGRADE",
        },
      };
}

function queueOptions(options: WorkersOptions): WorkerOptions[] {
  const { connection, namespace, bundle, activities, dataConverter, version } = options;
  const common = {
    connection,
    namespace,
    shutdownGraceTime: SHUTDOWN_GRACE_MS,
    stickyQueueScheduleToStartTimeout: STICKY_WAIT,
    maxHeartbeatThrottleInterval: HEARTBEATS_APART,
    dataConverter,
    ...versioning(version),
  };
  return [
    {
      ...common,
      taskQueue: TASK_QUEUES.deliveries,
      workflowBundle: bundle,
      activities: activities.deliveries,
      enableNonLocalActivities: false,
      maxCachedWorkflows: options.cachedWorkflows ?? cachedWorkflows(usableMemory()),
      maxConcurrentWorkflowTaskExecutions: WORKFLOW_SLOTS,
      maxConcurrentLocalActivityExecutions: LOCAL_ACTIVITY_SLOTS,
    },
    {
      ...common,
      taskQueue: TASK_QUEUES.slow,
      activities: activities.slow,
      maxConcurrentActivityTaskExecutions: SLOW_SLOTS,
    },
    {
      ...common,
      taskQueue: TASK_QUEUES.verification,
      workflowBundle: bundle,
      activities: activities.verification,
      maxCachedWorkflows: 100,
      // A workflow task lasts as long as the local activity in it.
      maxConcurrentWorkflowTaskExecutions: PING_SLOTS,
      maxConcurrentLocalActivityExecutions: PING_SLOTS,
      maxConcurrentActivityTaskExecutions: PING_SLOTS,
    },
    {
      ...common,
      taskQueue: TASK_QUEUES.control,
      workflowBundle: bundle,
      activities: activities.control,
      maxCachedWorkflows: 100,
      maxConcurrentWorkflowTaskExecutions: 16,
      maxConcurrentActivityTaskExecutions: 32,
    },
  ];
}

/** Creates workers of one process, and ends what they share. */
interface Factory {
  readonly create: (queue: WorkerOptions) => Promise<Worker>;
  /** To be called when none of them runs. */
  readonly end: () => Promise<void>;
}

/**
 * Creates workers whose workflows share a thread. The SDK starts one for each worker, with 20 to 25 MiB of its own for
 * the SDK and the bundle (docs/decisions/0007).
 */
function sharingThread({ activities }: WorkersOptions): Factory {
  let thread: Promise<WorkflowCreator> | undefined;
  // Workflow code refuses local activities that none of these names.
  const all = new Map(Object.values(activities).flatMap((some: object) => Object.entries(some)));
  class SharingWorker extends Worker {
    protected static override async createWorkflowCreator(
      ...[bundle, compiled, logger]: Parameters<typeof Worker.createWorkflowCreator>
    ): Promise<WorkflowCreator> {
      thread ??= super.createWorkflowCreator(bundle, { ...compiled, activities: all }, logger);
      const shared = await thread;
      return {
        createWorkflow: async (workflow) => await shared.createWorkflow(workflow),
        // Other workers may still use it.
        destroy: async () => await Promise.resolve(),
      };
    }
  }
  return {
    create: async (queue) => await SharingWorker.create(queue),
    end: async () => await (await thread?.catch(() => undefined))?.destroy(),
  };
}

/** Creates workers as the SDK does. */
const SEPARATE: Factory = {
  create: async (queue) => await Worker.create(queue),
  end: async () => await Promise.resolve(),
};

interface Running {
  readonly workers: readonly Worker[];
  readonly run: Promise<void>;
}

/** Creates the workers and runs them. If one cannot be created, none uses the connection. */
async function runQueues(options: WorkersOptions): Promise<Running> {
  const factory = options.patched ? sharingThread(options) : SEPARATE;
  const created = await Promise.allSettled(queueOptions(options).map(factory.create));
  const workers = created.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const failed = created.find((one) => one.status === "rejected");
  if (failed !== undefined) {
    // A worker gives its connection back only after a run.
    await Promise.allSettled(workers.map(async (worker) => await worker.runUntil(Promise.resolve())));
    await factory.end();
    throw failed.reason;
  }
  const runs = workers.map(async (worker) => await worker.run());
  const ended = Promise.allSettled(runs).then(factory.end);
  // Nobody waits for it when a worker fails.
  ended.catch(() => undefined);
  const run = Promise.all(runs).then(async () => await ended);
  // Who waits for `run` or `stop` gets the failure. Until then, it must not count as unhandled.
  run.catch(() => undefined);
  return { workers, run };
}

function shutDown(workers: readonly Worker[]): void {
  for (const worker of workers) {
    if (worker.getState() === "RUNNING") {
      worker.shutdown();
    }
  }
}

/** Ends workers over another connection, and closes it. Never rejects: others have taken their place. */
async function endOver(connection: NativeConnection, { workers, run }: Running): Promise<void> {
  for (const worker of workers) {
    worker.connection = connection;
  }
  shutDown(workers);
  await run.catch(() => undefined);
  await connection.close().catch(() => undefined);
}

/** The workers of a process. */
export class Workers {
  readonly #options: WorkersOptions;
  readonly #end = Promise.withResolvers<void>();
  /** Rejects when a worker fails; resolves after {@link Workers.stop}. */
  readonly run = this.#end.promise;
  readonly #replaced = new Set<Promise<void>>();
  #current: Running;
  #stopping = false;

  private constructor(options: WorkersOptions, current: Running) {
    this.#options = options;
    this.#current = current;
    this.run.catch(() => undefined);
    current.run.catch(this.#end.reject);
  }

  /** Creates and starts the workers. */
  static async start(options: WorkersOptions): Promise<Workers> {
    if (options.patched) {
      useSynchronousContext(activityContext);
    }
    return new Workers(options, await runQueues(options));
  }

  /**
   * Starts workers over another connection in place of those that have polled over a silent one. Their polls end only when
   * the SDK's core gives up that connection, 45 s after its last byte, and it sends no others meanwhile. They finish
   * what they have begun. If it rejects, they go on, and nothing uses the connection.
   *
   * @param another opens a connection for the workers that end. They say over it that Temporal's server need not keep
   *   their polls, which would take tasks.
   */
  async use(connection: NativeConnection, another: () => Promise<NativeConnection>): Promise<void> {
    // Opened first: nothing would end the fresh workers if this failed.
    const last = await another();
    const fresh = await runQueues({ ...this.#options, connection }).catch(async (error: unknown) => {
      await last.close();
      throw error;
    });
    const ended = endOver(last, this.#current).finally(() => this.#replaced.delete(ended));
    this.#replaced.add(ended);
    this.#current = fresh;
    fresh.run.catch(this.#end.reject);
    if (this.#stopping) {
      shutDown(fresh.workers);
    }
  }

  /** Stops polling, finishes the work in progress, and resolves when all workers have stopped. */
  async stop(): Promise<void> {
    this.#stopping = true;
    shutDown(this.#current.workers);
    await Promise.all([this.#current.run, ...this.#replaced]);
    this.#end.resolve();
  }
}
