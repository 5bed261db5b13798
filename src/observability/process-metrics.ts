/** The metrics that a process exports: its own, Node's, those of its connection pools, and Temporal's SDK's. */
import { collectDefaultMetrics, register } from "prom-client";
import { poolStatistics } from "#database/pool.ts";
import { VERSION } from "#runtime/package.ts";
import { metrics, OWN_METRICS, type ProcessName } from "./metrics.ts";

/** Node's gauges whose names look like counters. A scrape does not need every handle's type. */
const MISNAMED = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
] as const;

/** Returns further metrics of this process in Prometheus' format. */
export type MetricsSource = () => Promise<string>;
const sources = new Set<MetricsSource>();

/** Adds a source to this process's answers. Its names must be unique. */
export function addMetricsSource(source: MetricsSource): void {
  sources.add(source);
}

/**
 * Selects the exported metrics. May be called again.
 *
 * @param process the process's own name, a label of `signet_build_info`
 * @param processes whose metrics it exports: those of each part that runs in it
 */
export function exportMetrics(
  process: ProcessName | "all" | "serve",
  processes: readonly ProcessName[],
  region = "",
): void {
  if (register.getSingleMetric("process_start_time_seconds") === undefined) {
    // By default it wakes 100 times a second to measure the event loop, a third of what an idle process takes.
    collectDefaultMetrics({ eventLoopMonitoringPrecision: 100 });
    for (const name of MISNAMED) {
      register.removeSingleMetric(name);
    }
  }
  for (const { name, processes: exporters, metric } of OWN_METRICS) {
    const wanted = exporters.some((exporter) => processes.includes(exporter));
    if (wanted && register.getSingleMetric(name) === undefined) {
      register.registerMetric(metric);
    }
  }
  metrics.build.set({ version: VERSION, process, region }, 1);
}

/** Pools are measured only when they are scraped. */
function measurePools(): void {
  for (const { role, size, total, idle, waiting } of poolStatistics()) {
    metrics.poolSize.set({ role }, size);
    metrics.poolConnections.set({ role, state: "idle" }, idle);
    metrics.poolConnections.set({ role, state: "busy" }, total - idle);
    metrics.poolWaiting.set({ role }, waiting);
  }
}

/** Returns the answer to a scrape. A failed source is omitted, so that the rest is still available. */
export async function metricsText(): Promise<string> {
  measurePools();
  const texts = [...sources].map(async (source) => await source().catch(() => ""));
  return [await register.metrics(), ...(await Promise.all(texts))].filter((text) => text !== "").join("");
}
