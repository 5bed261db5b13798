/**
 * `signet all`: api and worker in one process, as a service. The api hands new deliveries to the worker at their insert
 * (decision 42). A machine that cannot keep up with one core of JavaScript runs the processes apart.
 */
import { HandOverTo } from "../webhooks/ingest/hand-over.ts";
import { type ApiProcessOptions, startApi } from "./api.ts";
import type { RunningProcess } from "./with-metrics.ts";
import { startWorker } from "./worker.ts";

/**
 * Starts both. Resolves when the api listens and the worker polls.
 *
 * @param stopping aborts the wait for Temporal, and the start
 */
export async function startAll(
  options: Pick<ApiProcessOptions, "config" | "log">,
  stopping: AbortSignal,
): Promise<RunningProcess> {
  const handOver = new HandOverTo();
  const api = await startApi({ ...options, handOver });
  const worker = await startWorker({ ...options, stopping, handOver }).catch(async (error: unknown) => {
    await api.close();
    throw error;
  });
  const known = new Set(api.readiness.map(({ name }) => name));
  return {
    readiness: [...api.readiness, ...worker.readiness.filter(({ name }) => !known.has(name))],
    failed: worker.failed,
    close: async () => {
      // The worker waits for the inserts in progress. What the api accepts afterwards waits in the outbox.
      await Promise.all([api.close(), worker.close()]);
    },
  };
}
