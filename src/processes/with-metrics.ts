/** A process with its metrics listener, which answers from the beginning of the start to the end of the shutdown. */
import type { Config } from "#config/config.ts";
import type { Logger } from "#observability/logger.ts";
import { startMetricsServer } from "#observability/metrics-server.ts";
import type { ProcessName } from "#observability/metrics.ts";
import { exportMetrics } from "#observability/process-metrics.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { startTracing, type TracingConfig, tracingOptions } from "#observability/tracing.ts";
import { VERSION } from "#runtime/package.ts";
import { within } from "#runtime/within.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const TRACES_END_MS = 2_000;

/** A process that runs until a signal ends it. */
export interface RunningProcess {
  /** Checks of its dependencies. */
  readonly readiness: readonly ReadinessCheck[];
  /** Rejects on a fatal failure. */
  readonly failed?: Promise<never>;
  /** Rereads external files on SIGHUP. If absent, SIGHUP ends the process. */
  reload?(): Promise<void>;
  close(): Promise<void>;
}

function notReady(because: string): readonly ReadinessCheck[] {
  return [{ name: "process", check: async () => await Promise.reject(new Error(because)) }];
}

type Observed = Pick<Config, "metricsListen" | "region"> & TracingConfig;

/** Enables traces if a collector is set. @returns a function that ends them without waiting for an unreachable collector */
export async function openTracing(
  process: ProcessName | "serve" | "all",
  config: TracingConfig,
): Promise<() => Promise<void>> {
  const options = tracingOptions(config, process, VERSION);
  if (options === undefined) {
    return async () => {};
  }
  const close = await startTracing(options);
  return async () => {
    await within(machineTimers, TRACES_END_MS, close()).catch(() => undefined);
  };
}

/** A process with several parts, whose metrics it exports. */
export interface Combined {
  readonly name: "all";
  readonly parts: readonly ProcessName[];
}

/** Starts the metrics listener, then the process. Readiness fails before the start is complete and during shutdown. */
export async function withMetrics(
  process: ProcessName | Combined,
  { metricsListen, region, ...config }: Observed,
  log: Logger,
  start: () => Promise<RunningProcess>,
): Promise<RunningProcess> {
  const { name, parts } = typeof process === "string" ? { name: process, parts: [process] } : process;
  exportMetrics(name, parts, region);
  let readiness = notReady("still starting");
  const metrics = await startMetricsServer({
    listen: metricsListen,
    readiness: () => readiness,
    timers: machineTimers,
    log,
  });
  const endTraces = await openTracing(name, config);
  try {
    const running = await start();
    ({ readiness } = running);
    return {
      ...running,
      close: async () => {
        readiness = notReady("ending");
        await running.close();
        await endTraces();
        await metrics.close();
      },
    };
  } catch (error) {
    await metrics.close();
    throw error;
  }
}
