/** The processes of a deployment, with their metrics. */
import { randomBytes } from "node:crypto";
import { setLeaseKeys } from "#database/repositories/tokens/lease-keys.ts";
import { eventually } from "./eventually.ts";
import { freePorts } from "./free-port.ts";
import { type SpawnedProcess, spawnSignet } from "./processes.ts";
import type { Environment } from "#config/config.ts";
import type { ProcessName } from "#observability/metrics.ts";
import type { World } from "./world.ts";

const START_MS = 120_000;

export interface ScrapedProcesses {
  /** URL of the api. */
  readonly apiUrl: string;
  readonly adminUrl: string;
  readonly edgeUrl: string;
  /** Returns host and port of a process's metrics. */
  readonly metricsAddress: (process: ProcessName) => string;
  scrape(process: ProcessName): Promise<string>;
  readonly output: (process: ProcessName) => string;
  /** Sends SIGTERM and waits. */
  stop(process: ProcessName): Promise<void>;
  close(): Promise<void>;
}

/** Starts them and resolves when all are ready. */
export async function startScrapedProcesses(
  world: World,
  environment: Environment = {},
): Promise<ScrapedProcesses> {
  const [api, admin, edge, hub, ...metricsPorts] = await freePorts(8);
  const ports: Record<ProcessName, number> = {
    api: metricsPorts[0] ?? 0,
    worker: metricsPorts[1] ?? 0,
    edge: metricsPorts[2] ?? 0,
    hub: metricsPorts[3] ?? 0,
  };
  const shared = {
    ...world.environment,
    SIGNET_LOG_LEVEL: "info",
    SIGNET_MTLS_MODE: "off",
    SIGNET_API_LISTEN: `127.0.0.1:${api}`,
    SIGNET_ADMIN_LISTEN: `127.0.0.1:${admin}`,
    SIGNET_EDGE_LISTEN: `127.0.0.1:${edge}`,
    SIGNET_HUB_LISTEN: `127.0.0.1:${hub}`,
    SIGNET_EDGE_API_URL: `http://127.0.0.1:${api}`,
    ...environment,
  };
  await setLeaseKeys(world.sql, [randomBytes(32)]);
  const start = (name: ProcessName): SpawnedProcess =>
    spawnSignet([name], { ...shared, SIGNET_METRICS_LISTEN: `127.0.0.1:${ports[name]}` });
  const children = { api: start("api"), worker: start("worker"), edge: start("edge"), hub: start("hub") };
  const close = async (): Promise<void> => {
    await Promise.all(Object.values(children).map(async (child) => await child.stop("SIGKILL")));
  };
  const untilReady = async (name: ProcessName): Promise<void> => {
    await eventually(
      async () =>
        children[name].state() !== undefined || (await fetch(`http://127.0.0.1:${ports[name]}/readyz`)).ok,
      `the ${name} to be ready`,
      START_MS,
    );
    if (children[name].state() !== undefined) {
      throw new Error(`the ${name} exited:\n${children[name].output()}`);
    }
  };
  try {
    await Promise.all((["api", "worker", "edge", "hub"] as const).map(untilReady));
  } catch (error) {
    await close();
    throw error;
  }
  return {
    apiUrl: `http://127.0.0.1:${api}`,
    adminUrl: `http://127.0.0.1:${admin}`,
    edgeUrl: `http://127.0.0.1:${edge}`,
    metricsAddress: (name) => `127.0.0.1:${ports[name]}`,
    scrape: async (name) => await (await fetch(`http://127.0.0.1:${ports[name]}/metrics`)).text(),
    output: (name) => children[name].output(),
    stop: async (name) => void (await children[name].stop()),
    close,
  };
}
