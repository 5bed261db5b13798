/** `signet capacity`: plans follow from the measured figures, and from nothing else. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import figures from "#cli/capacity-figures.json" with { type: "json" };
import { type CapacityFigures, PARTS, planFor, planLines, ratesOf, type Wanted } from "#cli/capacity-plan.ts";
import { runSignet } from "#test/support/command-line.ts";

const PLAIN: Wanted = { rate: 10, tenants: 10, retentionDays: 30, dataBytes: 500, fanOut: 1, failures: 0 };

/** Round numbers, so that plans can be computed by hand. */
const ROUND: CapacityFigures = {
  measured: figures.measured,
  data_bytes: 500,
  bytes: {
    event: 200,
    event_per_data_byte: 1,
    key: 100,
    delivery: 800,
    failed_attempt: 200,
    counts: 100,
    wal_per_data_byte: 1,
  },
  loads: [load(0, 0.01, 1_000, 0), load(100, 0.11, 501_000, 200), load(1_000, 0.41, 2_001_000, 100)],
  cpu_s_per_1000_by_kib: { api: 0.01, worker: 0.01, temporal: 0, postgres: 0.02 },
  tenants: [
    { count: 10, cpu_s_per_1000: 1 },
    { count: 1_000, cpu_s_per_1000: 1.2 },
  ],
  memory_mib: { api: 150, worker: 300, temporal: 300, postgres: 600 },
};

function load(rate: number, cores: number, wal: number, temporal: number): CapacityFigures["loads"][number] {
  return {
    events_per_second: rate,
    cores: { api: cores, worker: cores, temporal: cores, postgres: cores },
    wal_bytes_per_second: wal,
    temporal_bytes_per_delivery: temporal,
  };
}

/** Returns copies of the figures, each with another number that is a thousand times larger, by its path. */
function enlarged(value: unknown, path: string, put: (changed: unknown) => unknown): [string, unknown][] {
  if (typeof value === "number") {
    return [[path, put(value === 0 ? 1 : value * 1_000)]];
  }
  return typeof value !== "object" || value === null
    ? []
    : Object.entries(value).flatMap(([name, member]) =>
        enlarged(member, `${path}.${name}`, (changed) =>
          put(
            Array.isArray(value)
              ? value.map((each: unknown, index) => (String(index) === name ? changed : each))
              : { ...value, [name]: changed },
          ),
        ),
      );
}

test("a plan at a measured rate has the measured cores", () => {
  const { cores } = planFor(ROUND, { ...PLAIN, rate: 100 });
  expect(cores).toEqual({ api: 0.11, worker: 0.11, temporal: 0.11, postgres: 0.11, all: 0.44 });
  expect(planFor(ROUND, { ...PLAIN, rate: 550 }).cores.api).toBe(0.26);
  expect(planFor(ROUND, { ...PLAIN, rate: 2_000 }).cores.api).toBe(0.82);
});

test("payload, fan-out and tenants add what was measured", () => {
  expect(planFor(ROUND, { ...PLAIN, rate: 100, dataBytes: 500 + 10_240 }).cores.postgres).toBe(0.13);
  expect(planFor(ROUND, { ...PLAIN, rate: 10, fanOut: 10 }).cores.api).toBe(0.11);
  expect(planFor(ROUND, { ...PLAIN, rate: 1_000, tenants: 100 }).cores.api).toBe(0.45);
  expect(planFor(ROUND, { ...PLAIN, rate: 1_000, tenants: 1_000 }).cores.api).toBe(0.49);
});

test("disk is that of all days with the one that is dropped next, and WAL holds two checkpoints", () => {
  const days = 100 * 86_400 * 31;
  expect(planFor(ROUND, { ...PLAIN, rate: 100, failures: 1 })).toMatchObject({
    disk_gb: {
      events: Math.round((days * 700) / 1e9),
      deliveries: Math.round((days * 1_000) / 1e9),
      keys: 1.76,
      temporal: 5.18,
      wal: 4,
    },
    wal: { mb_per_second: 0.5, gb_per_day: 43.3 },
    set: { SIGNET_RETENTION_DAYS: "30", max_wal_size: "4GB" },
  });
});

test("a process keeps half of a core busy, and a cell half of what was measured", () => {
  const { processes, connections, set, second_cell: cell } = planFor(ROUND, { ...PLAIN, rate: 2_000 });
  expect(processes).toEqual({ api: 2, worker: 2 });
  expect(connections).toEqual({ api: 116, worker: 40, temporal: 30, all: 186 });
  expect(set["max_connections"]).toBe("352");
  expect(cell).toBe(true);
  expect(planFor(ROUND, { ...PLAIN, rate: 500 }).second_cell).toBe(false);
  expect(ratesOf(ROUND).second_cell).toBe(500);
});

test("what lies beyond the measured range is named", () => {
  expect(planFor(ROUND, { ...PLAIN, rate: 1_000, tenants: 1_000 }).extrapolated).toEqual([]);
  const { extrapolated } = planFor(ROUND, { ...PLAIN, rate: 1_001, tenants: 1_001 });
  expect(extrapolated).toEqual(["more than 1000 deliveries/s", "more than 1000 tenants"]);
});

test("more of anything never needs less", () => {
  const wanted = fc.record({
    rate: fc.integer({ min: 1, max: 5_000 }),
    tenants: fc.integer({ min: 1, max: 100_000 }),
    retentionDays: fc.integer({ min: 8, max: 400 }),
    dataBytes: fc.integer({ min: 1, max: 262_144 }),
    fanOut: fc.integer({ min: 1, max: 100 }),
    failures: fc.integer({ min: 0, max: 17 }),
  });
  fc.assert(
    fc.property(
      wanted,
      fc.constantFrom<keyof Wanted>(...(Object.keys(PLAIN) as (keyof Wanted)[])),
      (less, what) => {
        const [before, after] = [planFor(ROUND, less), planFor(ROUND, { ...less, [what]: less[what] * 2 })];
        for (const amount of ["cores", "memory_mib", "disk_gb", "connections"] as const) {
          expect(after[amount].all).toBeGreaterThanOrEqual(before[amount].all);
        }
        expect(after.wal.gb_per_day).toBeGreaterThanOrEqual(before.wal.gb_per_day);
      },
    ),
  );
});

test("every measured figure is in some plan", () => {
  const { measured, ...numbers } = figures as CapacityFigures;
  const wanted = [0.01, ...numbers.loads.map(({ events_per_second: rate }) => rate + 1)].flatMap((rate) =>
    [1, 50_000_000].map((tenants): Wanted => ({ ...PLAIN, rate, tenants, dataBytes: 200_000, failures: 1 })),
  );
  const plans = (of: CapacityFigures): string => JSON.stringify(wanted.map((each) => planFor(of, each)));
  const now = plans(figures);
  const unused = enlarged(numbers, "", (changed) => changed).filter(
    // At rest, nothing is delivered.
    ([path, changed]) =>
      !/^\.loads\.0\.(events|temporal)/.test(path) &&
      plans({ ...(changed as Omit<CapacityFigures, "measured">), measured }) === now,
  );
  expect(unused.map(([path]) => path)).toEqual([]);
});

test("the figures say when, where and by what they were measured", () => {
  const { at, commit, command, machine } = figures.measured;
  expect(Date.parse(at)).toBeGreaterThan(0);
  expect(commit).toMatch(/^[0-9a-f]{7,}/);
  expect(command).toContain("npm run bench -- --only capacity");
  expect(machine).toHaveProperty("cores");
  expect(figures.loads.map(({ cores }) => Object.keys(cores))).toEqual(figures.loads.map(() => [...PARTS]));
});

test("the command prints the plan, as text and as JSON", async () => {
  const line =
    "capacity --rate 200 --tenants 500 --retention 40d --payload 1KiB --fan-out 2 --failures 0.1".split(" ");
  const plan = planFor(figures, {
    rate: 200,
    tenants: 500,
    retentionDays: 40,
    dataBytes: 1_024,
    fanOut: 2,
    failures: 0.1,
  });
  const text = await runSignet(line, {});
  expect(text.code).toBe(0);
  for (const [name, value] of planLines(plan)) {
    expect(text.stdout).toContain(`${name.padEnd(14)}${value}\n`);
  }
  const json = await runSignet([...line, "--json"], {});
  expect(JSON.parse(json.stdout)).toEqual({ ...plan, measured: figures.measured });
});

test.each([
  ["no rate", []],
  ["a rate of nothing", ["--rate", "0"]],
  ["a rate that is no number", ["--rate", "1e9"]],
  ["half a tenant", ["--rate", "1", "--tenants", "1.5"]],
  ["a retention without a unit", ["--rate", "1", "--retention", "30"]],
  ["a retention below that of dead letters", ["--rate", "1", "--retention", "7d"]],
  ["more data than an event may have", ["--rate", "1", "--payload", "257KiB"]],
])("%s is a wrong command line", async (_what, options) => {
  expect((await runSignet(["capacity", ...options], {})).code).toBe(2);
});
