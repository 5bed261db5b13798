/** The workers of a worker process: one per task queue, so that slow receivers only ever hold slots of their own. */
import { asyncLocalStorage as activityContext } from "@temporalio/activity";
import {
  type NativeConnection,
  Worker,
  type WorkerOptions,
  type WorkflowBundleOption,
} from "@temporalio/worker";
import type { PayloadCodec } from "@temporalio/common";
import { TASK_QUEUES } from "../../workflows/messages.ts";
import { useSynchronousContext } from "./call-context.ts";
import { dataConverterOf } from "./codec.ts";

/** Longer than any request, so that what is under way at a shutdown ends and is recorded. */
const SHUTDOWN_GRACE_MS = 12_000;
/** 72 to 92 KiB each, measured. */
const CACHED_WORKFLOWS_MAX = 1_000;
/** Eager start needs free slots beyond those that pollers reserve: with 12 it never happens, 40 are enough. */
const WORKFLOW_SLOTS = 64;
/** One for each list of first attempts; the dispatcher limits the members. */
const LOCAL_ACTIVITY_SLOTS = 256;
/** Lists of slow and failing endpoints under way; each endpoint has its own limit besides. */
const SLOW_SLOTS = 256;

/** Longer than a live worker takes for its own; the workflows of one that has ended wait for so long. */
const STICKY_WAIT = "3 seconds";
/** The SDK would pass on a beat only after 80 % of its timeout, which a busy machine misses. */
const HEARTBEATS_APART = "1 second";

/** Activities by the queue that runs them; `object` since each workflow's module types its own. */
export interface QueueActivities {
  /** Local activities of `deliver`. */
  readonly deliveries: object;
  readonly slow: object;
  readonly control: object;
}

export interface WorkersOptions {
  readonly connection: NativeConnection;
  readonly namespace: string;
  readonly bundle: WorkflowBundleOption;
  /** Encrypts payloads; absent where they are left readable. */
  readonly codec?: PayloadCodec | undefined;
  readonly activities: QueueActivities;
}

export interface Workers {
  /** Rejects when a worker fails; resolves after {@link Workers.stop}. */
  readonly run: Promise<void>;
  /** Asks over another connection from now on; what was asked before is not asked again. */
  use(connection: NativeConnection): void;
  /** Stops polling, lets what is under way end, resolves when all is quiet. */
  stop(): Promise<void>;
}

function queueOptions({ connection, namespace, bundle, activities, codec }: WorkersOptions): WorkerOptions[] {
  const common = {
    connection,
    namespace,
    shutdownGraceTime: SHUTDOWN_GRACE_MS,
    stickyQueueScheduleToStartTimeout: STICKY_WAIT,
    maxHeartbeatThrottleInterval: HEARTBEATS_APART,
    ...dataConverterOf(codec),
  };
  return [
    {
      ...common,
      taskQueue: TASK_QUEUES.deliveries,
      workflowBundle: bundle,
      activities: activities.deliveries,
      enableNonLocalActivities: false,
      maxCachedWorkflows: CACHED_WORKFLOWS_MAX,
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
      taskQueue: TASK_QUEUES.control,
      workflowBundle: bundle,
      activities: activities.control,
      maxCachedWorkflows: 100,
      maxConcurrentWorkflowTaskExecutions: 16,
      maxConcurrentActivityTaskExecutions: 32,
    },
  ];
}

/** Creates the workers and lets them poll. Their activities know their context in their first turn only. */
export async function startWorkers(options: WorkersOptions): Promise<Workers> {
  useSynchronousContext(activityContext);
  const workers = await Promise.all(queueOptions(options).map(async (queue) => await Worker.create(queue)));
  const run = Promise.all(workers.map(async (worker) => await worker.run())).then(() => undefined);
  // Whoever awaits `run` or `stop` sees the failure; until then it must not count as unhandled.
  run.catch(() => undefined);
  return {
    run,
    use: (connection) => {
      for (const worker of workers) {
        worker.connection = connection;
      }
    },
    stop: async () => {
      for (const worker of workers) {
        if (worker.getState() === "RUNNING") {
          worker.shutdown();
        }
      }
      await run;
    },
  };
}
