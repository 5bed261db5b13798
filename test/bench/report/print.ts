/** Formats measurements as text. */
import type { Measurement } from "./measurement.ts";

const NAME_WIDTH = 34;

function number(value: number, digits = 0): string {
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Formats one line for the terminal. */
export function measurementLine(measurement: Measurement): string {
  const { latency_ms: latency, cpu_s_per_1000: cpu } = measurement;
  return [
    measurement.name.padEnd(NAME_WIDTH),
    `${number(measurement.deliveries_per_second)}/s`.padStart(8),
    `p50 ${number(latency.p50, 1)} p95 ${number(latency.p95, 1)} p99 ${number(latency.p99, 1)} ms`,
    `CPU-s/1000 ${number(cpu["total"] ?? Number.NaN, 2)}`,
    `peak ${number(measurement.signet_pss_peak_mib)} MiB`,
    `lost ${measurement.lost} dup ${measurement.duplicated}`,
    ...(measurement.refused > 0 ? [`refused ${measurement.refused}`] : []),
    ...(measurement.others_cpu_s > 0.1 * measurement.seconds
      ? [`(others used ${number(measurement.others_cpu_s, 1)} CPU-s)`]
      : []),
  ].join("  ");
}

const COLUMNS: readonly (readonly [string, (measurement: Measurement) => string])[] = [
  ["measurement", ({ name }) => name],
  ["deliveries", ({ deliveries }) => number(deliveries)],
  ["per second", ({ deliveries_per_second: rate }) => number(rate)],
  [
    "p50 / p95 / p99 ms",
    ({ latency_ms: { p50, p95, p99 } }) => [p50, p95, p99].map((value) => number(value, 1)).join(" / "),
  ],
  ["CPU-s per 1,000", ({ cpu_s_per_1000: cpu }) => number(cpu["total"] ?? Number.NaN, 2)],
  ["settled", ({ cpu_s_per_1000_settled: cpu }) => number(cpu["total"] ?? Number.NaN, 2)],
  [
    "api / worker / Temporal / PostgreSQL",
    ({ cpu_s_per_1000: cpu }) =>
      [...("signet_all" in cpu ? ["signet_all"] : ["signet_api", "signet_worker"]), "temporal", "postgres"]
        .map((name) => number(cpu[name] ?? Number.NaN, 2))
        .join(" / "),
  ],
  ["load", ({ load_cpu_s_per_1000: cpu }) => number(cpu["total"] ?? Number.NaN, 2)],
  ["WAL bytes per delivery", ({ wal_bytes_per_delivery: wal }) => number(wal)],
  ["MiB", ({ signet_pss_peak_mib: mib }) => number(mib)],
  ["lost", ({ lost }) => number(lost)],
  ["doubled", ({ duplicated }) => number(duplicated)],
  ["cores used by others", ({ others_cpu_s: others, seconds }) => number(others / seconds, 1)],
];

/** Formats a table, whose first row has the titles. */
export function markdownRows([titles = [], ...rows]: readonly (readonly string[])[]): string {
  const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [row(titles), row(titles.map(() => "---")), ...rows.map(row)].join("\n");
}

/** Formats a table for docs/benchmarks.md. */
export function markdownTable(measurements: readonly Measurement[]): string {
  return markdownRows([
    COLUMNS.map(([title]) => title),
    ...measurements.map((measurement) => COLUMNS.map(([, cell]) => cell(measurement))),
  ]);
}
