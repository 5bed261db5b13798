/** Worker processes of a world: what a deployment runs, to be killed by tests. */
import { join } from "node:path";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { type SpawnedProcess, spawnProcess } from "./processes.ts";
import type { World } from "./world.ts";

/** Its start compiles the sources and bundles the workflows: a minute on a busy machine. */
const PATIENCE_MS = 180_000;
const REPOSITORY = join(import.meta.dirname, "..", "..");

/** Starts `signet worker` from the sources and resolves when it is ready. */
export async function startWorkerProcess(world: World): Promise<SpawnedProcess> {
  const port = await freePort();
  const worker = spawnProcess({
    command: ["node", "--import", "tsx", "src/main.ts", "worker"],
    cwd: REPOSITORY,
    environment: { ...world.environment, SIGNET_METRICS_LISTEN: `127.0.0.1:${port}` },
  });
  const isReady = async (): Promise<boolean> =>
    worker.state() !== undefined || (await fetch(`http://127.0.0.1:${port}/readyz`)).ok;
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
  return worker;
}
