/**
 * `signet all`: api and worker in one process, as a service, with the edge where there is a route table. The api hands new
 * deliveries to the worker at their insert (decision 42). A machine that cannot keep up with one core of JavaScript runs
 * the processes apart.
 */
import { type Config, ConfigError, type Environment } from "#config/config.ts";
import { addChecks, type ReadinessCheck } from "#runtime/readiness.ts";
import { HandOverTo } from "#webhooks/ingest/hand-over.ts";
import { startApi } from "./api.ts";
import type { ApiProcessOptions } from "./api/services.ts";
import { type EdgeProcess, startEdge } from "./edge.ts";
import type { RunningProcess } from "./with-metrics.ts";
import { startWorker } from "./worker.ts";

/** Whether an edge runs inside: with a data plane behind it. Without one, the api listens itself. */
export function hasEdgeInside({ edgeRoutes }: Pick<Config, "edgeRoutes">): boolean {
  return edgeRoutes !== undefined;
}

/** @throws ConfigError if the edge inside would not forward */
function requireForwarding({ edgeChecks }: Pick<Config, "edgeChecks">): void {
  if (edgeChecks !== "off") {
    throw new ConfigError([
      "SIGNET_EDGE_CHECKS must be off with `signet all`: run `signet edge` for the checks of a proxy",
    ]);
  }
}

export interface AllOptions extends Pick<ApiProcessOptions, "config" | "log"> {
  /** For keys that the route table names by environment variable. */
  readonly environment: Environment;
}

/**
 * Starts all of them. Resolves when the listeners are open and the worker polls.
 *
 * @param stopping aborts the wait for Temporal, and the start
 * @throws ConfigError for settings that one process cannot have
 */
export async function startAll(
  { environment, ...options }: AllOptions,
  stopping: AbortSignal,
): Promise<RunningProcess> {
  const { config } = options;
  requireForwarding(config);
  const handOver = new HandOverTo();
  let edge: EdgeProcess | undefined;
  const front: ApiProcessOptions["front"] = async (behind) => {
    edge = await startEdge({ ...options, environment, behind });
    return edge.address;
  };
  const api = await startApi({ ...options, handOver, ...(hasEdgeInside(config) ? { front } : {}) });
  const closeFront = async (): Promise<void> => {
    await Promise.all([api.close(), edge?.close()]);
  };
  const worker = await startWorker({ ...options, stopping, handOver }).catch(async (error: unknown) => {
    await closeFront();
    throw error;
  });
  const readiness: ReadinessCheck[] = [];
  addChecks(readiness, [...api.readiness, ...worker.readiness, ...(edge?.readiness ?? [])]);
  return {
    readiness,
    failed: worker.failed,
    reload: async () => await edge?.reload(),
    close: async () => {
      // The worker waits for the inserts in progress. What the api accepts afterwards waits in the outbox.
      await Promise.all([closeFront(), worker.close()]);
    },
  };
}
