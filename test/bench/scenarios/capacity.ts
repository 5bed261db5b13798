/** Measures the figures of `signet capacity`: bytes of rows, WAL, CPU and memory by rate, payload and tenants. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { performance } from "node:perf_hooks";
import type { Client } from "pg";
import { type CapacityFigures, type MeasuredLoad, type Parts, PARTS } from "#cli/capacity-plan.ts";
import { describeCommit, writeJson } from "../command-line.ts";
import { describeServer, withClient } from "../environment/postgres.ts";
import { accessToken, requestJson } from "../environment/provision.ts";
import { TEMPORAL_SERVER_VERSION } from "../environment/temporal-programs.ts";
import type { TenantGroup, World } from "../environment/world.ts";
import { cpuSeconds } from "../measure/process-tree.ts";
import { sum } from "../measure/meter.ts";
import { describeMachine } from "../report/machine.ts";
import { type Measurement, round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { PAYLOAD_BYTES, Run } from "./run.ts";
import { saturationOf, singles } from "./saturation.ts";

const FIGURES = join(import.meta.dirname, "../../../src/cli/capacity-figures.json");
const COMMAND = "npm run bench -- --only capacity";
const IDLE_S = 20;
/** Fewer seconds would count single wake-ups. */
const MIN_IDLE_S = 10;
const SETTLE_S = 5;
/** Events per second, and for how many seconds. */
const OPEN = [
  { perSecond: 10, seconds: 20, warmUp: 50 },
  { perSecond: 100, seconds: 20, warmUp: 200 },
] as const;
const CONNECTIONS = 64;
/** Fewer rows would count half-empty pages. */
const ROWS_MIN = 10_000;
const FAILED_EVENTS = 5_000;
const FAILED_MS = 60_000;
const LARGE_BYTES = 20_000;
const LARGE_EVENTS = 3_000;
const LARGE_WARM_UP = 500;
const LARGE_CONNECTIONS = 32;
const MANY_TENANTS = 1_000;
/** Events that are published in batches, and events of a batch, by the size of their data. */
const STORED = [
  { data: PAYLOAD_BYTES, batches: 20, each: 1_000 },
  { data: LARGE_BYTES, batches: 20, each: 100 },
] as const;
const KIB = 1_024;

const TABLES = ["events", "idempotency_keys", "deliveries", "attempts", "delivery_counts"] as const;
type Table = (typeof TABLES)[number];
type Sizes = Readonly<Record<Table, { readonly bytes: number; readonly rows: number }>>;

interface Reading {
  readonly sizes: Sizes;
  readonly wal: number;
  readonly temporal: number;
  readonly atMs: number;
}

/** Reads the sizes of tables with their partitions and indexes. */
async function readSizes(client: Client): Promise<Sizes> {
  const sizes: [Table, { bytes: number; rows: number }][] = [];
  for (const table of TABLES) {
    const { rows } = await client.query<{ bytes: number; rows: number }>(
      `SELECT (SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class
          WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname ~ ('^' || $1 || '(_|$)')) AS bytes,
        (SELECT count(*)::float8 FROM ${table}) AS rows`,
      [table],
    );
    sizes.push([table, rows[0] ?? { bytes: Number.NaN, rows: Number.NaN }]);
  }
  return Object.fromEntries(sizes) as Sizes;
}

async function read(bench: Bench, world: World): Promise<Reading> {
  return await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ wal: number; temporal: number }>(
      `SELECT (pg_current_wal_insert_lsn() - '0/0')::float8 AS wal,
        coalesce((SELECT sum(pg_database_size(datname)) FROM pg_database WHERE datname = ANY($1)), 0)::float8 AS temporal`,
      [bench.stack.temporal.databases],
    );
    const { wal = Number.NaN, temporal = Number.NaN } = rows[0] ?? {};
    return { sizes: await readSizes(client), wal, temporal, atMs: performance.now() };
  });
}

/** Returns the bytes by which a table grew for each new row. */
function perRow(table: Table, before: Reading, after: Reading): number {
  const [from, to] = [before.sizes[table], after.sizes[table]];
  return (to.bytes - from.bytes) / (to.rows - from.rows);
}

function partsOf(valueOf: (part: keyof Parts) => number, digits: number): Parts {
  return Object.fromEntries(PARTS.map((part) => [part, round(valueOf(part), digits)])) as unknown as Parts;
}

/** Returns a part's figure; the bench names the processes of Signet apart. */
function of(values: Readonly<Record<string, number>>, part: keyof Parts): number {
  return values[part === "api" || part === "worker" ? `signet_${part}` : part] ?? Number.NaN;
}

/** Publishes events with ids to a type that nobody takes: rows of events and keys, and nothing else. */
async function storeEvents(
  bench: Bench,
  world: World,
  { tenants: [tenant] }: TenantGroup,
  { data, batches, each }: (typeof STORED)[number],
): Promise<{ readonly event: number; readonly key: number }> {
  if (tenant === undefined) {
    throw new Error("the group has no tenants");
  }
  const token = await accessToken(world.signet, tenant);
  const before = await read(bench, world);
  for (let batch = 0; batch < batches; batch += 1) {
    const events = Array.from({ length: each }, () => ({
      id: randomBytes(16).toString("hex"),
      type: "bench.nobody",
      // As the rest of the bench counts: the bytes of `data` as JSON.
      data: {
        pad: randomBytes(data / 2)
          .toString("hex")
          .slice('{"pad":""}'.length),
      },
    }));
    await requestJson("POST", `${world.signet.apiUrl}/v1/events`, token, { events });
  }
  const after = await read(bench, world);
  return { event: perRow("events", before, after), key: perRow("idempotency_keys", before, after) };
}

interface Idle {
  readonly cores: Parts;
  readonly wal: number;
}

async function measureIdle(bench: Bench, world: World): Promise<Idle> {
  // Until counts are folded and the tables of the batches are analysed.
  await delay(4 * SETTLE_S * 1_000);
  const [before, cpu] = [await read(bench, world), cpuSeconds(world.roots.system)];
  await delay(Math.max(MIN_IDLE_S, bench.seconds(IDLE_S)) * 1_000);
  const [after, used] = [await read(bench, world), cpuSeconds(world.roots.system)];
  const seconds = (after.atMs - before.atMs) / 1_000;
  return {
    cores: partsOf((part) => (of(used, part) - of(cpu, part)) / seconds, 4),
    wal: (after.wal - before.wal) / seconds,
  };
}

interface Load {
  readonly group: TenantGroup;
  readonly name: string;
  readonly pace: Parameters<typeof Bench.prototype.measure>[1]["flow"]["pace"];
  readonly events: number;
  readonly warmUp: number;
  readonly payloadBytes?: number;
}

interface Loaded {
  readonly measurement: Measurement;
  readonly before: Reading;
  readonly after: Reading;
}

async function measureLoad(bench: Bench, world: World, { name, warmUp, ...flow }: Load): Promise<Loaded> {
  const before = await read(bench, world);
  const measurement = await bench.measure(world, { name: `capacity-${name}`, warmUp, flow });
  return { measurement, before, after: await read(bench, world) };
}

/** Rows of deliveries that appeared, with those of the warm-up. */
function deliveriesOf({ before, after }: Loaded): number {
  return after.sizes.deliveries.rows - before.sizes.deliveries.rows;
}

/** WAL of a delivery, without that of the idle system. */
function walPerDelivery(loaded: Loaded, idle: Idle): number {
  const { before, after } = loaded;
  return (after.wal - before.wal - (idle.wal * (after.atMs - before.atMs)) / 1_000) / deliveriesOf(loaded);
}

/** CPU-seconds of 1,000 deliveries, what follows the last arrival included, the idle system's left out. */
function cpuPerThousand({ measurement }: Loaded, idle: Idle, part: keyof Parts): number {
  const { deliveries, cpu_s_per_1000_settled: settled } = measurement;
  return of(settled, part) - (idle.cores[part] * SETTLE_S * 1_000) / deliveries;
}

/** @param cpuOf CPU-seconds of 1,000 deliveries */
function describeLoad(
  loaded: Loaded,
  idle: Idle,
  { perSecond, cpuOf }: { readonly perSecond: number; readonly cpuOf: (part: keyof Parts) => number },
): MeasuredLoad {
  const { before, after } = loaded;
  return {
    events_per_second: perSecond,
    cores: partsOf((part) => (cpuOf(part) * perSecond) / 1_000, 4),
    wal_bytes_per_second: round(idle.wal + walPerDelivery(loaded, idle) * perSecond, 0),
    temporal_bytes_per_delivery: round((after.temporal - before.temporal) / deliveriesOf(loaded), 0),
  };
}

async function measureOpenLoads(
  bench: Bench,
  world: World,
  group: TenantGroup,
  idle: Idle,
): Promise<MeasuredLoad[]> {
  const loads: MeasuredLoad[] = [];
  for (const { perSecond, seconds, warmUp } of OPEN) {
    const loaded = await measureLoad(bench, world, {
      group,
      name: `open-${perSecond}`,
      pace: { kind: "open", perSecond },
      events: perSecond * bench.seconds(seconds),
      warmUp,
    });
    // What follows the last arrival is not more than what preceded the first, and the idle system is in it.
    const cpuOf = (part: keyof Parts): number => of(loaded.measurement.cpu_s_per_1000, part);
    loads.push(describeLoad(loaded, idle, { perSecond, cpuOf }));
  }
  return loads;
}

/** Lets first attempts fail, of which each leaves a row. Returns its bytes. */
async function measureFailures(bench: Bench, world: World, group: TenantGroup): Promise<number> {
  await bench.load.behave(group.endpoints, { kind: "fail", attempts: Number.MAX_SAFE_INTEGER });
  const before = await read(bench, world);
  const wanted = FAILED_EVENTS;
  const run = await Run.begin(world, bench.load, { events: wanted });
  await run.publish({ group, events: wanted, pace: singles(LARGE_CONNECTIONS) });
  // Ends the run's samples, and waits some seconds.
  await run.usage();
  const deadline = performance.now() + FAILED_MS;
  let after = await read(bench, world);
  while (after.sizes.attempts.rows - before.sizes.attempts.rows < wanted) {
    if (performance.now() > deadline) {
      throw new Error("the attempts did not fail in time");
    }
    await delay(1_000);
    after = await read(bench, world);
  }
  return perRow("attempts", before, after);
}

type Measured = Omit<CapacityFigures, "measured">;

/** Loads of which each differs from `full` in one way. */
interface Loads {
  readonly full: Loaded;
  /** Large data. */
  readonly wide: Loaded;
  /** Many tenants. */
  readonly crowd: Loaded;
}

async function measureLoads(bench: Bench, world: World, group: TenantGroup): Promise<Loads> {
  const { events, warmUp } = saturationOf(bench);
  const most = { events: Math.max(events, ROWS_MIN), warmUp, pace: singles(CONNECTIONS) };
  const full = await measureLoad(bench, world, { ...most, group, name: "saturation" });
  const wide = await measureLoad(bench, world, {
    group,
    name: "large",
    pace: singles(LARGE_CONNECTIONS),
    events: bench.events(LARGE_EVENTS),
    warmUp: bench.events(LARGE_WARM_UP),
    payloadBytes: LARGE_BYTES,
  });
  const shape = { endpointsPerTenant: 1, fanOut: "one", inserted: true } as const;
  const many = await world.group({ name: "many", tenants: bench.events(MANY_TENANTS), ...shape });
  const crowd = await measureLoad(bench, world, { ...most, group: many, name: "tenants" });
  // Counts are folded every second.
  await delay(SETTLE_S * 1_000);
  return { full, wide, crowd: { ...crowd, after: await read(bench, world) } };
}

async function measureFigures(bench: Bench, world: World): Promise<Measured> {
  const group = await bench.tenTenants(world);
  const small = await storeEvents(bench, world, group, STORED[0]);
  const large = await storeEvents(bench, world, group, STORED[1]);
  const furtherBytes = LARGE_BYTES - PAYLOAD_BYTES;
  const perDataByte = (large.event - small.event) / furtherBytes;
  const idle = await measureIdle(bench, world);
  const open = await measureOpenLoads(bench, world, group, idle);
  const { full, wide, crowd } = await measureLoads(bench, world, group);
  const failed = await measureFailures(bench, world, group);
  const cpu = (loaded: Loaded): number => sum(partsOf((part) => cpuPerThousand(loaded, idle, part), 6));
  const rest: MeasuredLoad = {
    events_per_second: 0,
    cores: idle.cores,
    wal_bytes_per_second: round(idle.wal, 0),
    temporal_bytes_per_delivery: 0,
  };
  return {
    data_bytes: PAYLOAD_BYTES,
    bytes: {
      event: round(small.event - PAYLOAD_BYTES * perDataByte, 0),
      event_per_data_byte: round(perDataByte, 3),
      key: round(small.key, 0),
      delivery: round(perRow("deliveries", full.before, full.after), 0),
      failed_attempt: round(failed, 0),
      counts: round(perRow("delivery_counts", crowd.before, crowd.after), 0),
      wal_per_data_byte: round((walPerDelivery(wide, idle) - walPerDelivery(full, idle)) / furtherBytes, 3),
    },
    loads: [
      rest,
      ...open,
      describeLoad(full, idle, {
        perSecond: full.measurement.deliveries_per_second,
        cpuOf: (part) => cpuPerThousand(full, idle, part),
      }),
    ],
    cpu_s_per_1000_by_kib: partsOf((part) => {
      const further = cpuPerThousand(wide, idle, part) - cpuPerThousand(full, idle, part);
      return (Math.max(0, further) * KIB) / furtherBytes;
    }, 4),
    tenants: [
      { count: group.tenants.length, cpu_s_per_1000: round(cpu(full), 3) },
      { count: bench.events(MANY_TENANTS), cpu_s_per_1000: round(cpu(crowd), 3) },
    ],
    memory_mib: partsOf((part) => of(full.measurement.memory_pss_mib, part), 0),
  };
}

/** Cores that other programs used during the scenario's measurements. */
function othersCores(measurements: readonly Measurement[]): number {
  const seconds = measurements.reduce((total, each) => total + each.seconds, 0);
  return round(measurements.reduce((total, each) => total + each.others_cpu_s, 0) / seconds, 2);
}

async function runScenario(bench: Bench): Promise<void> {
  const at = new Date().toISOString();
  const world = await bench.world({}, "capacity");
  const figures = await measureFigures(bench, world);
  const { server_version: postgres = "unknown" } = await describeServer(bench.stack.postgres.adminUrl);
  const measured: CapacityFigures["measured"] = {
    at,
    commit: describeCommit(),
    command: bench.quick ? `${COMMAND} --quick` : COMMAND,
    machine: describeMachine(bench.stack.directory),
    postgres,
    temporal: TEMPORAL_SERVER_VERSION,
    others_cores: othersCores(bench.measurements.filter(({ name }) => name.startsWith("capacity-"))),
  };
  const all: CapacityFigures = { measured, ...figures };
  bench.findings["capacity"] = all;
  if (!bench.quick) {
    await writeJson(FIGURES, all);
    bench.log(`written to ${FIGURES}; \`npm run docs\` writes docs/capacity.md`);
  }
}

export const capacity: Scenario = {
  name: "capacity",
  about:
    "what rows, WAL, CPU and memory come to: the figures of `signet capacity`, written beside its source",
  timeoutMs: 8 * 60_000,
  run: runScenario,
};
