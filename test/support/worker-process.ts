/** Worker processes of a world, as in a deployment, which tests can kill. */
import { join } from "node:path";
import type { Environment } from "../../src/config/config.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { IMAGE_ENVIRONMENT, type SpawnedProcess, spawnProcess } from "./processes.ts";
import type { World } from "./world.ts";

/** The start compiles the sources and bundles the workflows, which takes a minute on a busy machine. */
const TIMEOUT_MS = 180_000;
const REPOSITORY = join(import.meta.dirname, "..", "..");

/** A worker, with the addresses of its metrics and its readiness. */
export interface WorkerProcessUnderTest extends SpawnedProcess {
  readonly metricsUrl: string;
}

/** Runs from the sources. For many starts, use {@link productionImage}, which starts in a second or two. */
const FROM_SOURCES = {
  command: ["node", "--import", "tsx", "src/processes/main.ts", "worker"],
  cwd: REPOSITORY,
};

/**
 * Starts `signet worker` and resolves when it is ready.
 *
 * @param settings added to the world's settings
 * @param image directory from {@link productionImage} (default: the sources)
 */
export async function startWorkerProcess(
  world: World,
  settings: Environment = {},
  image?: string,
): Promise<WorkerProcessUnderTest> {
  const port = await freePort();
  const metricsUrl = `http://127.0.0.1:${port}`;
  const from =
    image === undefined
      ? FROM_SOURCES
      : { command: ["node", "dist/src/processes/main.js", "worker"], cwd: image };
  const worker = spawnProcess({
    ...from,
    environment: {
      ...world.environment,
      ...(image === undefined ? undefined : IMAGE_ENVIRONMENT),
      SIGNET_METRICS_LISTEN: `127.0.0.1:${port}`,
      ...settings,
    },
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
