/** Worker processes of a world: what a deployment runs, to be killed by tests. */
import { join } from "node:path";
import type { Environment } from "../../src/config/config.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { IMAGE_ENVIRONMENT, type SpawnedProcess, spawnProcess } from "./processes.ts";
import type { World } from "./world.ts";

/** Its start compiles the sources and bundles the workflows: a minute on a busy machine. */
const PATIENCE_MS = 180_000;
const REPOSITORY = join(import.meta.dirname, "..", "..");

/** A worker, and where its metrics and its readiness are asked for. */
export interface WorkerProcessUnderTest extends SpawnedProcess {
  readonly metricsUrl: string;
}

/** The sources; {@link productionImage}, which starts in a second or two, where a test starts many. */
const FROM_SOURCES = {
  command: ["node", "--import", "tsx", "src/processes/main.ts", "worker"],
  cwd: REPOSITORY,
};

/**
 * Starts `signet worker` and resolves when it is ready.
 *
 * @param settings on top of the world's
 * @param image what {@link productionImage} made; the sources unless given
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
