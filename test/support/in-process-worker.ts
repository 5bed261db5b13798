/** Workers in the test's process, with the workflow code of the run's build. */
import { NativeConnection } from "@temporalio/worker";
import { inject } from "vitest";
import { createLogger } from "#observability/logger.ts";
import { startWorker, type WorkerProcess } from "#processes/worker.ts";
import type { WorkerProcessOptions } from "#processes/worker/services.ts";
import { installTemporalRuntime } from "#temporal/runtime.ts";
import { workflowBundle } from "./processes.ts";

let runtime: Promise<unknown> | undefined;

/**
 * Installs the SDK's runtime, which logs errors only, and keeps it until this process ends, with a connection. Otherwise
 * it ends with the last worker of a test file, and the next file's worker starts it at the same port for its metrics,
 * which may be taken by then.
 */
export async function keepRuntime(): Promise<void> {
  runtime ??= (async () => {
    await installTemporalRuntime(createLogger({ level: "error" }));
    await NativeConnection.connect({ address: inject("temporalAddress") });
  })();
  await runtime;
}

/** Starts a worker in this process. Close it at the end. */
export async function startTestWorker(
  options: Omit<WorkerProcessOptions, "workflowBundle">,
): Promise<WorkerProcess> {
  await keepRuntime();
  return await startWorker({
    ...options,
    workflowBundle: workflowBundle(),
  });
}
