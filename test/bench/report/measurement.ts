/** One measurement as printed and written. Snake case, because it is public JSON. */
import { sum, type Usage } from "../measure/meter.ts";
import type { FlowStatistics, Percentiles } from "../measure/statistics.ts";

export type Figures = Readonly<Record<string, number>>;

export interface LoadDescription {
  readonly events: number;
  readonly tenants: number;
  readonly endpoints: number;
  readonly deliveries_per_event: number;
  readonly payload_bytes: number;
  /** Connections of a closed loop. */
  readonly connections?: number;
  readonly events_per_request?: number;
  /** Rate of an open loop. */
  readonly events_per_second?: number;
}

export interface Measurement {
  readonly name: string;
  readonly at: string;
  /** Settings beside the defaults. `raised` holds limits that the load would otherwise reach. */
  readonly settings: Readonly<Record<string, string>>;
  readonly raised: Readonly<Record<string, string>>;
  readonly load: LoadDescription;
  readonly accepted: number;
  readonly refused: number;
  readonly refusals: Figures;
  readonly deliveries: number;
  readonly attempts: number;
  readonly lost: number;
  readonly duplicated: number;
  readonly seconds: number;
  readonly published_per_second: number;
  readonly deliveries_per_second: number;
  readonly latency_ms: Percentiles;
  readonly ack_ms: Percentiles;
  /** CPU-seconds per 1,000 deliveries until the last arrival. `total` is Signet, Temporal and PostgreSQL together. */
  readonly cpu_s_per_1000: Figures;
  readonly cpu_s_per_1000_settled: Figures;
  /** CPU of the bench's own publisher and sink. */
  readonly load_cpu_s_per_1000: Figures;
  /** Bytes of WAL for all databases, Temporal's included, until a few seconds after the last arrival. */
  readonly wal_bytes_per_delivery: number;
  /** Share of one core that the idle system used just before. */
  readonly idle_cores: Figures;
  /** CPU-seconds of Signet's threads: the JavaScript thread, Temporal's Rust core, garbage collection, workflows. */
  readonly thread_cpu_s: Readonly<Record<string, Figures>>;
  readonly memory_pss_mib: Figures;
  readonly signet_pss_peak_mib: number;
  /** CPU-seconds of unrelated programs and other guests. More than a little makes the figures void. */
  readonly others_cpu_s: number;
  readonly stolen_cpu_s: number;
  readonly notes: Readonly<Record<string, unknown>>;
}

export function round(value: number, digits: number): number {
  return Number.isFinite(value) ? Number(value.toFixed(digits)) : value;
}

function roundAll(values: Figures, digits: number): Record<string, number> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, round(value, digits)]));
}

function roundPercentiles({ p50, p95, p99, max }: Percentiles): Percentiles {
  return { p50: round(p50, 1), p95: round(p95, 1), p99: round(p99, 1), max: round(max, 1) };
}

/** Converts to values per 1,000 deliveries and adds their total. */
function perThousand(seconds: Figures, deliveries: number): Record<string, number> {
  const all = { ...seconds, total: sum(seconds) };
  return Object.fromEntries(
    Object.entries(all).map(([name, value]) => [name, round((value / deliveries) * 1_000, 3)]),
  );
}

export interface MeasurementParts {
  readonly name: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly raised: Readonly<Record<string, string>>;
  readonly load: LoadDescription;
  readonly statistics: FlowStatistics;
  readonly usage: Usage;
  readonly notes?: Readonly<Record<string, unknown>>;
}

export function describeMeasurement(parts: MeasurementParts): Measurement {
  const { statistics, usage } = parts;
  return {
    name: parts.name,
    at: new Date().toISOString(),
    settings: parts.settings,
    raised: parts.raised,
    load: parts.load,
    accepted: statistics.accepted,
    refused: statistics.refused,
    refusals: statistics.refusals,
    deliveries: statistics.deliveries,
    attempts: statistics.attempts,
    lost: statistics.lost,
    duplicated: statistics.duplicated,
    seconds: round(statistics.seconds, 2),
    published_per_second: round(statistics.publishedPerSecond, 1),
    deliveries_per_second: round(statistics.deliveredPerSecond, 1),
    latency_ms: roundPercentiles(statistics.latencyMs),
    ack_ms: roundPercentiles(statistics.ackMs),
    cpu_s_per_1000: perThousand(usage.cpu, statistics.deliveries),
    cpu_s_per_1000_settled: perThousand(usage.cpuSettled, statistics.deliveries),
    load_cpu_s_per_1000: perThousand(usage.load, statistics.deliveries),
    wal_bytes_per_delivery: round(usage.wal / statistics.deliveries, 0),
    idle_cores: roundAll(usage.idle, 3),
    thread_cpu_s: usage.threads,
    memory_pss_mib: roundAll(usage.pss, 0),
    signet_pss_peak_mib: round(usage.signetPssPeak, 0),
    others_cpu_s: round(usage.others, 2),
    stolen_cpu_s: round(usage.stolen, 2),
    notes: parts.notes ?? {},
  };
}
