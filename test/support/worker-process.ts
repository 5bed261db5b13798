/** Worker processes of a world: what a deployment runs, to be killed by tests. */
import { join } from "node:path";
import type { Environment } from "../../src/config.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { type SpawnedProcess, spawnProcess } from "./processes.ts";
import type { World } from "./world.ts";

/** Its start compiles the sources and bundles the workflows: a minute on a busy machine. */
const PATIENCE_MS = 180_000;
const REPOSITORY = join(import.meta.dirname, "..", "..");

/** A worker, and where its metrics and its readiness are asked for. */
export interface WorkerProcessUnderTest extends SpawnedProcess {
  readonly metricsUrl: string;
}

/** Starts `signet worker` from the sources and resolves when it is ready; `settings` come on top of the world's. */
export async function startWorkerProcess(
  world: World,
  settings: Environment = {},
): Promise<WorkerProcessUnderTest> {
  const port = await freePort();
  const metricsUrl = `http://127.0.0.1:${port}`;
  const worker = spawnProcess({
    command: ["node", "--import", "tsx", "src/main.ts", "worker"],
    cwd: REPOSITORY,
    environment: { ...world.environment, SIGNET_METRICS_LISTEN: `127.0.0.1:${port}`, ...settings },
  });
  const isReady = async (): Promise<boolean> =>
    worker.state() !== undefined || (await fetch(`${metricsUrl}/readyz`)).ok;
  try {
    await eventually(isReady, "the worker process to be ready", PATIENCE_MS);
  } catch (error) {
    await worker.stop("SIGKILL");
    throw error;
  }
  const end = worker.state();
  if (end !== undefined) {
    throw new Error(`the worker ended (${end.code ?? end.signal}):\n${worker.output()}`);
  }
  return { ...worker, metricsUrl };
}
