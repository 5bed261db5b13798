/** Runs a workflow on the SDK in a process of its own, with or without our patches, and prints what it saw as JSON. */
import { executionAsyncId } from "node:async_hooks";
import { asyncLocalStorage as activityContext, Context } from "@temporalio/activity";
import { Worker } from "@temporalio/worker";
import { WORKFLOW_TYPES } from "#workflows/messages.ts";
import { useSynchronousContext } from "#temporal/call-context.ts";
import { checkNamespace, createLazyClient } from "#temporal/client.ts";
import { connectNative, createNativeClient } from "#temporal/native-client.ts";
import { useLeanWorkflowThreads } from "#temporal/workflow-threads.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export interface SdkPatchesInput {
  readonly address: string;
  readonly namespace: string;
  readonly codePath: string;
  readonly patched: boolean;
}

export interface SdkPatchesOutput {
  /** Whether Node tracks every promise of this process. */
  readonly tracksPromises: boolean;
  /** The activity's type, from its context. */
  readonly activityType: string | undefined;
  readonly stackTrace: string | undefined;
  readonly enhancedStackTrace: unknown;
}

const TASK_QUEUE = "sdk-patches";
const RESULT = { days: 0, keys: 0, rows: 0, revocations: 0 };

const { patched, codePath, ...where } = JSON.parse(process.argv[2] ?? "") as SdkPatchesInput;
const options = { ...where, tls: false, metadata: {}, compression: "none", patched } as const;

async function tracksPromises(): Promise<boolean> {
  await Promise.resolve();
  return executionAsyncId() !== 0;
}

if (patched) {
  useLeanWorkflowThreads({ onStuck: () => process.exit(3), timers: machineTimers });
  useSynchronousContext(activityContext);
}
const lazy = createLazyClient(options);
await checkNamespace(lazy);
await lazy.connection.close();

const connection = await connectNative(options);
let begin: (activityType: string) => void;
let end: () => void;
const started = new Promise<string>((resolve) => (begin = resolve));
const asked = new Promise<void>((resolve) => (end = resolve));
const worker = await Worker.create({
  connection,
  namespace: where.namespace,
  taskQueue: TASK_QUEUE,
  workflowBundle: { codePath },
  activities: {
    purge: async () => {
      begin(Context.current().info.activityType);
      await asked;
      return RESULT;
    },
  },
});
const client = createNativeClient(connection, where.namespace);
const output = await worker.runUntil(async (): Promise<SdkPatchesOutput> => {
  const handle = await client.workflow.start(WORKFLOW_TYPES.purgeExpired, {
    taskQueue: TASK_QUEUE,
    workflowId: `sdk-patches-${process.pid}`,
    workflowExecutionTimeout: "30 seconds",
  });
  const activityType = await started;
  const stackTrace = await handle.query<string>("__stack_trace");
  const enhancedStackTrace = await handle.query("__enhanced_stack_trace");
  end();
  await handle.result();
  return { tracksPromises: await tracksPromises(), activityType, stackTrace, enhancedStackTrace };
});
process.stdout.write(`${JSON.stringify(output)}\n`);
process.exit(0);
