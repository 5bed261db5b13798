/** What a process exports: the metrics of its kind, Node's own, those of its connection pools, and the SDK's of Temporal. */
import { collectDefaultMetrics, register } from "prom-client";
import { poolStatistics } from "../database/pool.ts";
import { metrics, OWN_METRICS, type ProcessName } from "./metrics.ts";

/** Gauges whose names say that they are counters; a scrape has no use for every handle's type. */
const MISNAMED = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
] as const;

/** Text in Prometheus' format that somebody else in this process has. */
export type MetricsSource = () => Promise<string>;
const sources = new Set<MetricsSource>();

/** Adds what else is to stand in this process's answer; names must not be those of others. */
export function addMetricsSource(source: MetricsSource): void {
  sources.add(source);
}

/** Chooses what this process exports. May be called again: a process that is several has the metrics of each. */
export function exportMetrics(processes: readonly ProcessName[], version: string): void {
  if (register.getSingleMetric("process_start_time_seconds") === undefined) {
    collectDefaultMetrics();
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
  metrics.build.set({ version, process: processes.length === 1 ? (processes[0] ?? "") : "serve" }, 1);
}

/** Pools are looked at when they are asked for: nothing is counted meanwhile. */
function measurePools(): void {
  for (const { role, size, total, idle, waiting } of poolStatistics()) {
    metrics.poolSize.set({ role }, size);
    metrics.poolConnections.set({ role, state: "idle" }, idle);
    metrics.poolConnections.set({ role, state: "busy" }, total - idle);
    metrics.poolWaiting.set({ role }, waiting);
  }
}

/** The answer to a scrape. A source that fails is left out: the rest is worth more than nothing. */
export async function metricsText(): Promise<string> {
  measurePools();
  const texts = [...sources].map(async (source) => await source().catch(() => ""));
  return [await register.metrics(), ...(await Promise.all(texts))].filter((text) => text !== "").join("");
}
