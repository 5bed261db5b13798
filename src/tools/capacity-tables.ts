/** The generated parts of docs/capacity.md: plans of `signet capacity`, and the measured figures behind them. */
import figures from "#cli/capacity-figures.json" with { type: "json" };
import {
  type CapacityFigures,
  type MeasuredBytes,
  PARTS,
  type Plan,
  planFor,
  planLines,
  ratesOf,
  WATCH,
} from "#cli/capacity-plan.ts";
import { table } from "./text.ts";

const RATES = [10, 100, 1_000] as const;
const TENANTS = [100, 1_000, 10_000] as const;
const RETENTION_DAYS = 30;
const DIGITS = { maximumFractionDigits: 4 } as const;
const ONCE = { fanOut: 1, failures: 0 } as const;
const { measured, bytes, loads }: CapacityFigures = figures;

const BEYOND = "¹ Beyond what was measured.";

function figuresTable(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const shown = rows.map((cells) =>
    cells.map((cell) => (typeof cell === "number" ? cell.toLocaleString("en-US", DIGITS) : cell)),
  );
  return table(head, shown);
}

function plan(rate: number, tenants: number): Plan {
  const wanted = { rate, tenants, retentionDays: RETENTION_DAYS, dataBytes: figures.data_bytes };
  return planFor(figures, { ...wanted, ...ONCE });
}

function plansTable(): string {
  const head = [
    "Events/s",
    "Tenants",
    `Cores busy: all (${PARTS.join(" / ")})`,
    "Processes: api, worker",
    "Memory, MiB",
    "Disk for 30 days, GB",
    "WAL, MB/s",
    "`max_connections`",
    "Second cell",
  ];
  const rows = RATES.flatMap((rate) =>
    TENANTS.map((tenants) => {
      const { cores, processes, memory_mib: memory, disk_gb: disk, ...rest } = plan(rate, tenants);
      const mark = rest.extrapolated.length === 0 ? "" : " ¹";
      return [
        rate,
        `${tenants.toLocaleString("en-US")}${mark}`,
        `${cores.all} (${PARTS.map((part) => cores[part]).join(" / ")})`,
        `${processes.api}, ${processes.worker}`,
        memory.all,
        disk.all,
        rest.wal.mb_per_second,
        rest.set["max_connections"] ?? "",
        rest.second_cell ? "yes" : "no",
      ];
    }),
  );
  return `${figuresTable(head, rows)}\n\n${BEYOND}`;
}

/** Returns what the command prints for the example of the page. */
function example(): string {
  const wanted = { rate: 200, tenants: 500, retentionDays: RETENTION_DAYS, dataBytes: 1_024, ...ONCE };
  const lines = planLines(planFor(figures, wanted)).map(([name, text]) => `${name.padEnd(14)}${text}`);
  return `\`\`\`text\n${lines.join("\n")}\n\`\`\``;
}

function ratesTable(): string {
  const { api, worker, second_cell: cell } = ratesOf(figures);
  const most = loads.at(-1)?.events_per_second ?? 0;
  const rows = [
    [worker, "a second worker: the first keeps half of a core busy"],
    [api, "a second api"],
    [cell, "a second cell: half of the highest rate that was measured on one PostgreSQL"],
  ] as const;
  const sorted = rows
    .toSorted(([a], [b]) => a - b)
    .map(([rate, then]) => [`${rate.toLocaleString("en-US")}${rate > most ? " ¹" : ""}`, then]);
  return `${figuresTable(["Deliveries/s", "Then"], sorted)}\n\n${BEYOND}`;
}

function watchTable(): string {
  return figuresTable(
    ["Alert", "Says"],
    WATCH.map(([alert, says]) => [`[\`${alert}\`](runbook.md#${alert.toLowerCase()})`, says]),
  );
}

const BYTES: Readonly<Record<keyof MeasuredBytes, string>> = {
  event: "an event without its data",
  event_per_data_byte: "each byte of an event's data",
  key: "a key by which a repeated event is recognised",
  delivery: "a delivery",
  failed_attempt: "an attempt that failed",
  counts: "an hour's counts of an endpoint and a type",
  wal_per_data_byte: "WAL of each byte of data",
};

function bytesTable(): string {
  return figuresTable(
    ["What", "Bytes, with indexes"],
    Object.entries(BYTES).map(([name, what]) => [what, bytes[name as keyof MeasuredBytes]]),
  );
}

function loadsTable(): string {
  const head = ["Events/s", ...PARTS, "WAL, bytes/s", "Temporal, bytes for a delivery"];
  return figuresTable(
    head,
    loads.map(({ events_per_second: rate, cores, ...rest }) => [
      rate,
      ...PARTS.map((part) => cores[part]),
      rest.wal_bytes_per_second,
      rest.temporal_bytes_per_delivery,
    ]),
  );
}

function partsTable(): string {
  const { cpu_s_per_1000_by_kib: byKib, memory_mib: memory } = figures;
  return figuresTable(
    ["What", ...PARTS],
    [
      ["CPU-s of 1,000 deliveries for each further KiB of data", ...PARTS.map((part) => byKib[part])],
      ["memory at saturation, MiB", ...PARTS.map((part) => memory[part])],
    ],
  );
}

function tenantsTable(): string {
  return figuresTable(
    ["Tenants that publish", "CPU-s of 1,000 deliveries at saturation"],
    figures.tenants.map(({ count, cpu_s_per_1000: cpu }) => [count, cpu]),
  );
}

function measuredText(): string {
  const { machine, at, commit, command, postgres, temporal, others_cores: others } = measured;
  const quiet =
    others <= 0.1
      ? "Nothing else ran."
      : `Other programs used ${others} cores meanwhile, so CPU is an upper bound. Bytes do not depend on them.`;
  return `Measured on ${at.slice(0, 10)} at ${commit} by \`${command}\`, on ${String(machine["cpu"])} with ${String(machine["cores"])} cores and ${String(machine["memory_gib"])} GiB, ${String(machine["node"])}, PostgreSQL ${postgres}, Temporal ${temporal}. A page write with fdatasync took ${String(machine["disk_sync_ms"])} ms. ${quiet}`;
}

/** The parts by their names in the page. */
export const CAPACITY_PARTS: Readonly<Record<string, () => string>> = {
  "capacity plans": plansTable,
  "capacity example": example,
  "capacity watch": watchTable,
  "capacity rates": ratesTable,
  "capacity measured": measuredText,
  "capacity bytes": bytesTable,
  "capacity loads": loadsTable,
  "capacity parts": partsTable,
  "capacity tenants": tenantsTable,
};
