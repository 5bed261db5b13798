/**
 * What a load needs. Every coefficient is a figure of capacity-figures.json, which `npm run bench -- --only capacity`
 * measures. docs/capacity.md shows the same figures and plans.
 */

/** The parts of an installation that use CPU and memory. */
export const PARTS = ["api", "worker", "temporal", "postgres"] as const;
export type Parts = Readonly<Record<(typeof PARTS)[number], number>>;

/** One measured rate. At 0, nothing was published. */
export interface MeasuredLoad {
  /** Events, each with one delivery. */
  readonly events_per_second: number;
  readonly cores: Parts;
  /** Of PostgreSQL, Temporal's databases included. */
  readonly wal_bytes_per_second: number;
  /** Growth of Temporal's databases by one delivery. */
  readonly temporal_bytes_per_delivery: number;
}

/** Sizes of rows with their indexes, in bytes. */
export interface MeasuredBytes {
  /** An event without its data. */
  readonly event: number;
  /** What each byte of data adds to an event. */
  readonly event_per_data_byte: number;
  /** A key by which a repeated event is recognised. */
  readonly key: number;
  readonly delivery: number;
  /** The row of an attempt that failed. A delivery that succeeds at once has none. */
  readonly failed_attempt: number;
  /** An hour's counts of an endpoint and a type. */
  readonly counts: number;
  /** WAL of each byte of data. */
  readonly wal_per_data_byte: number;
}

/** Measured figures, with what they were measured on. Snake case, because the file is public. */
export interface CapacityFigures {
  readonly measured: {
    readonly at: string;
    readonly commit: string;
    readonly command: string;
    readonly machine: Readonly<Record<string, unknown>>;
    readonly postgres: string;
    readonly temporal: string;
    /** Cores that other programs used meanwhile. Above a few hundredths, CPU is an upper bound. */
    readonly others_cores: number;
  };
  /** Size of `data` in `loads`, in bytes. */
  readonly data_bytes: number;
  readonly bytes: MeasuredBytes;
  /** By rate, the lowest first. The last one is saturation. */
  readonly loads: readonly MeasuredLoad[];
  /** CPU-seconds that 1,000 deliveries cost more for each further KiB of data. */
  readonly cpu_s_per_1000_by_kib: Parts;
  /** CPU-seconds of 1,000 deliveries by the number of tenants that publish. */
  readonly tenants: readonly { readonly count: number; readonly cpu_s_per_1000: number }[];
  /** Memory at saturation, in MiB. */
  readonly memory_mib: Parts;
}

/** The load to plan for. */
export interface Wanted {
  /** Events per second, as an average of a busy hour. */
  readonly rate: number;
  /** Tenants that publish. */
  readonly tenants: number;
  readonly retentionDays: number;
  /** Size of an event's data, in bytes. */
  readonly dataBytes: number;
  /** Deliveries of an event. */
  readonly fanOut: number;
  /** Failed attempts of a delivery, on average. They count for disk only. */
  readonly failures: number;
}

/** A plan. Snake case, because it is public JSON. */
export interface Plan {
  readonly events_per_second: number;
  readonly deliveries_per_second: number;
  readonly tenants: number;
  readonly cores: Parts & { readonly all: number };
  readonly processes: { readonly api: number; readonly worker: number };
  readonly memory_mib: Parts & { readonly all: number };
  readonly disk_gb: Readonly<
    Record<"events" | "deliveries" | "keys" | "counts" | "temporal" | "wal" | "all", number>
  >;
  readonly wal: { readonly mb_per_second: number; readonly gb_per_day: number };
  readonly connections: Readonly<Record<"api" | "worker" | "temporal" | "all", number>>;
  readonly set: Readonly<Record<string, string>>;
  readonly arrangement: string;
  /** Whether a second cell is due. */
  readonly second_cell: boolean;
  /** What lies beyond the measured range. */
  readonly extrapolated: readonly string[];
}

const DAY_S = 86_400;
const HOUR_S = 3_600;
const KIB = 1_024;
const MB = 1e6;
const GB = 1e9;

/** Half of a core is left for peaks, and for what waits after an outage. */
const BUSY_SHARE = 0.5;
/** A backlog drains with what saturation leaves over. Beyond half of it, that takes longer than the outage. */
const CELL_SHARE = 0.5;
/** Cores of the smallest machine for all parts together. */
const ONE_MACHINE_CORES = 2;
/** A table of keys takes them for a day, and is dropped 25 hours later (src/database/repositories/partitions.ts). */
const KEYS_KEPT_S = 49 * HOUR_S;
/** Retention of the namespace, which `signet migrate` sets. */
const TEMPORAL_KEPT_S = 72 * HOUR_S;
/** `checkpoint_timeout` of the compose file. Twice its WAL fits `max_wal_size`, so that time begins checkpoints. */
const CHECKPOINT_S = 900;
const WAL_GB_MIN = 4;
/** `SIGNET_DATABASE_CONNECTIONS` by default, and what docs/operations.md says of connections. */
const POOL = 10;
const CONNECTIONS_OF = { api: 5 * POOL + 8, worker: POOL + 10, temporal: 30, upkeep: 10 } as const;
/** Those of the compose file. The number is fixed when Temporal's cluster is created. */
const SHARDS = 64;
const SHARDS_OF_MANY_MACHINES = 512;

type Point = readonly [x: number, y: number];

/** Returns the value at `x` on the lines through the points. Beyond the last one, values grow in proportion to `x`. */
function between(points: readonly Point[], x: number): number {
  const [lastX, lastY] = points.at(-1) ?? [1, Number.NaN];
  const above = points.findIndex(([at]) => at >= x);
  if (above === -1) {
    return (lastY * x) / lastX;
  }
  const [toX, toY] = points[above] ?? [x, Number.NaN];
  const [fromX, fromY] = points[above - 1] ?? [toX, toY];
  return toX === fromX ? toY : fromY + ((toY - fromY) * (x - fromX)) / (toX - fromX);
}

/** Returns the cost with so many tenants over that with the fewest measured. It grows with their logarithm. */
function tenantsFactor({ tenants }: CapacityFigures, count: number): number {
  const [few, many] = [tenants[0], tenants.at(-1)];
  if (few === undefined || many === undefined || many.count <= few.count || count <= few.count) {
    return 1;
  }
  const growth = many.cpu_s_per_1000 / few.cpu_s_per_1000 - 1;
  return 1 + (Math.max(0, growth) * Math.log(count / few.count)) / Math.log(many.count / few.count);
}

function round(value: number): number {
  return value < 10 ? Number(value.toFixed(2)) : value < 100 ? Number(value.toFixed(1)) : Math.round(value);
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

function rounded<Name extends string>(values: Readonly<Record<Name, number>>): Record<Name | "all", number> {
  const all = sumOf(Object.values<number>(values));
  const entries = Object.entries<number>({ ...values, all }).map(([name, value]) => [name, round(value)]);
  return Object.fromEntries(entries) as Record<Name | "all", number>;
}

function partsOf(valueOf: (part: keyof Parts) => number): Parts {
  return Object.fromEntries(PARTS.map((part) => [part, valueOf(part)])) as unknown as Parts;
}

/** Returns a figure of the measured loads at a rate of deliveries. */
function atRate(
  { loads }: CapacityFigures,
  perSecond: number,
  figure: (load: MeasuredLoad) => number,
): number {
  return between(
    loads.map((load): Point => [load.events_per_second, figure(load)]),
    perSecond,
  );
}

/** Cores that each part keeps busy. Every delivery counts as if it had an event of its own, so fan-out costs less. */
function coresOf(figures: CapacityFigures, wanted: Wanted): Parts {
  const deliveries = wanted.rate * wanted.fanOut;
  const factor = tenantsFactor(figures, wanted.tenants);
  const furtherKib = Math.max(0, wanted.dataBytes - figures.data_bytes) / KIB;
  return partsOf(
    (part) =>
      factor * atRate(figures, deliveries, ({ cores }) => cores[part]) +
      (deliveries / 1_000) * furtherKib * figures.cpu_s_per_1000_by_kib[part],
  );
}

function walPerSecond(figures: CapacityFigures, { rate, fanOut, dataBytes }: Wanted): number {
  const further = Math.max(0, dataBytes - figures.data_bytes) * figures.bytes.wal_per_data_byte;
  return atRate(figures, rate * fanOut, (load) => load.wal_bytes_per_second) + rate * further;
}

/** Bytes on disk when the oldest day is dropped next. */
function diskOf(figures: CapacityFigures, wanted: Wanted, wal: number): Plan["disk_gb"] {
  const { bytes } = figures;
  const { rate, fanOut, tenants, dataBytes, failures } = wanted;
  const keptS = (wanted.retentionDays + 1) * DAY_S;
  const deliveries = rate * fanOut;
  const countsPerHour = Math.min(deliveries * HOUR_S, tenants * fanOut);
  const temporalPerSecond = atRate(
    figures,
    deliveries,
    (load) => load.temporal_bytes_per_delivery * load.events_per_second,
  );
  return rounded({
    events: (rate * keptS * (bytes.event + dataBytes * bytes.event_per_data_byte)) / GB,
    deliveries: (deliveries * keptS * (bytes.delivery + failures * bytes.failed_attempt)) / GB,
    keys: (rate * KEYS_KEPT_S * bytes.key) / GB,
    counts: (countsPerHour * (keptS / HOUR_S) * bytes.counts) / GB,
    temporal: (temporalPerSecond * TEMPORAL_KEPT_S) / GB,
    wal,
  });
}

function connectionsOf({ api, worker }: Plan["processes"]): Plan["connections"] {
  return rounded({
    api: api * CONNECTIONS_OF.api,
    worker: worker * CONNECTIONS_OF.worker,
    temporal: CONNECTIONS_OF.temporal,
  });
}

function beyondMeasured(figures: CapacityFigures, wanted: Wanted): string[] {
  const most = figures.loads.at(-1)?.events_per_second ?? 0;
  const tenants = figures.tenants.at(-1)?.count ?? 0;
  return [
    ...(wanted.rate * wanted.fanOut > most ? [`more than ${round(most)} deliveries/s`] : []),
    ...(wanted.tenants > tenants ? [`more than ${tenants} tenants`] : []),
  ];
}

/** Returns what a load needs, by measured figures. */
export function planFor(figures: CapacityFigures, wanted: Wanted): Plan {
  const deliveries = wanted.rate * wanted.fanOut;
  const cores = coresOf(figures, wanted);
  const all = sumOf(Object.values(cores));
  const processes = {
    api: Math.max(1, Math.ceil(cores.api / BUSY_SHARE)),
    worker: Math.max(1, Math.ceil(cores.worker / BUSY_SHARE)),
  };
  const walBytes = walPerSecond(figures, wanted);
  const walGb = Math.max(WAL_GB_MIN, Math.ceil((2 * CHECKPOINT_S * walBytes) / GB));
  const connections = connectionsOf(processes);
  // During an upgrade, old and new processes run beside each other.
  const most = 2 * (connections.api + connections.worker) + connections.temporal + CONNECTIONS_OF.upkeep;
  const oneMachine = all <= ONE_MACHINE_CORES * BUSY_SHARE;
  const measuredMost = figures.loads.at(-1)?.events_per_second ?? 0;
  return {
    events_per_second: wanted.rate,
    deliveries_per_second: deliveries,
    tenants: wanted.tenants,
    cores: rounded(cores),
    processes,
    memory_mib: rounded({
      ...figures.memory_mib,
      api: figures.memory_mib.api * processes.api,
      worker: figures.memory_mib.worker * processes.worker,
    }),
    disk_gb: diskOf(figures, wanted, walGb),
    wal: { mb_per_second: round(walBytes / MB), gb_per_day: round((walBytes * DAY_S) / GB) },
    connections,
    set: {
      SIGNET_RETENTION_DAYS: String(wanted.retentionDays),
      SIGNET_DATABASE_CONNECTIONS: String(POOL),
      max_connections: String(most),
      max_wal_size: `${walGb}GB`,
      numHistoryShards: String(deliveries > measuredMost ? SHARDS_OF_MANY_MACHINES : SHARDS),
    },
    arrangement: oneMachine
      ? "one machine of two cores; a second api and worker for availability"
      : "PostgreSQL, Temporal, apis and workers each on machines of their own; two apis and workers at least",
    second_cell: deliveries > CELL_SHARE * measuredMost,
    extrapolated: beyondMeasured(figures, wanted),
  };
}

/** Returns the highest rates that leave half of a core, or half of saturation, in deliveries per second. */
export function ratesOf(
  figures: CapacityFigures,
): Readonly<Record<"api" | "worker" | "second_cell", number>> {
  const most = figures.loads.at(-1)?.events_per_second ?? 0;
  const rateOf = (part: "api" | "worker"): number =>
    between(
      figures.loads.map((load): Point => [load.cores[part], load.events_per_second]),
      BUSY_SHARE,
    );
  return {
    api: round(rateOf("api")),
    worker: round(rateOf("worker")),
    second_cell: round(most * CELL_SHARE),
  };
}

/** Alerts that show that a plan no longer fits, and what each means. */
export const WATCH = [
  ["SignetDeliveriesWait", "workers or PostgreSQL do not keep up"],
  ["SignetEventLoopBlocked", "a process needs a second one beside it"],
  ["SignetPoolExhausted", "connections are too few, or PostgreSQL is too slow"],
  ["SignetPublishesRefused", "a tenant's events are refused"],
  ["SignetRetentionBehind", "days are not dropped, so the disk fills"],
  ["SignetTablesLocked", "something holds up publishes and deliveries"],
  ["SignetWaitingIndexEmpty", "VACUUM cannot remove what has left the queue"],
] as const;

function listed(values: Readonly<Record<string, number>>, unit: string): string {
  const { all, ...rest } = values;
  const parts = Object.entries(rest).map(([name, value]) => `${name} ${value}`);
  return `${all}${unit} (${parts.join(", ")})`;
}

/** Returns a plan as lines for people: a name, and what it needs. */
export function planLines(plan: Plan): readonly (readonly [name: string, text: string])[] {
  const { processes, wal, connections, set } = plan;
  return [
    ["cores busy", listed(plan.cores, "")],
    ["processes", `${processes.api} api, ${processes.worker} worker`],
    ["memory", listed(plan.memory_mib, " MiB")],
    ["disk", listed(plan.disk_gb, " GB")],
    ["WAL", `${wal.mb_per_second} MB/s, ${wal.gb_per_day} GB a day`],
    ["connections", listed(connections, "")],
    [
      "set",
      Object.entries(set)
        .map(([name, value]) => `${name}=${value}`)
        .join(" "),
    ],
    ["arrangement", plan.arrangement],
    ["second cell", plan.second_cell ? "yes" : "no"],
    ...(plan.extrapolated.length === 0 ? [] : [["not measured", plan.extrapolated.join("; ")] as const]),
    ...WATCH.map(([alert, says], index) => [index === 0 ? "watch" : "", `${alert}: ${says}`] as const),
  ];
}
