/** Worker processes of a world, as in a deployment, which tests can kill. */
import type { Environment } from "#config/config.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { type SpawnedProcess, spawnSignet } from "./processes.ts";
import type { World } from "./world.ts";

/** Long enough for an overloaded machine. */
const TIMEOUT_MS = 60_000;

/** A worker, with the addresses of its metrics and its readiness. */
export interface WorkerProcessUnderTest extends SpawnedProcess {
  readonly metricsUrl: string;
}

/** Starts `signet worker` with the world's settings and the given ones. Resolves when it is ready. */
export async function startWorkerProcess(
  world: World,
  settings: Environment = {},
): Promise<WorkerProcessUnderTest> {
  const port = await freePort();
  const metricsUrl = `http://127.0.0.1:${port}`;
  const worker = spawnSignet(["worker"], {
    ...world.environment,
    SIGNET_METRICS_LISTEN: `127.0.0.1:${port}`,
    ...settings,
  });
  const isReady = async (): Promise<boolean> =>
    worker.state() !== undefined || (await fetch(`${metricsUrl}/readyz`)).ok;
  try {
    await eventually(isReady, "the worker process to be ready", TIMEOUT_MS);
  } catch (error) {
    await worker.stop("SIGKILL");
    throw error;
  }
  const end = worker.state();
  if (end !== undefined) {
    throw new Error(`the worker exited (${end.code ?? end.signal}):\n${worker.output()}`);
  }
  return { ...worker, metricsUrl };
}
