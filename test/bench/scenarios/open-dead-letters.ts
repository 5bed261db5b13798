/**
 * Open dead letters: those of disabled endpoints; 1,000,000 rows beside a steady flow and their expiry without workflows, then a sample with its
 * workflows: what they occupy in Temporal, and what their expiry costs.
 */
import { setTimeout as delay } from "node:timers/promises";
import { withClient } from "../environment/postgres.ts";
import type { World } from "../environment/world.ts";
import { monotonicMs } from "../load/monotonic.ts";
import { sum } from "../measure/meter.ts";
import { cpuSeconds } from "../measure/process-tree.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { fill, makeQueue } from "./dead-letters.ts";
import { Run } from "./run.ts";

const LETTERS = 1_000_000;
/** Dead letters whose time ends at once, after Temporal's database was lost. */
const EXPIRED_AT_ONCE = 50_000;
const SAMPLE = 2_000;
const SAMPLE_PER_SECOND = 50;
const PER_SECOND = 50;
const SECONDS = 20;
/** Two rounds of lists, and more. */
const DISABLED_SECONDS = 70;
const RETRY_WINDOW_MS = 1_000;
const DEAD_LETTER_MS = 180_000;
const WAIT_MAX_MS = 10 * 60_000;
const POLL_MS = 500;

async function count(world: World, condition: string): Promise<number> {
  return await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM deliveries WHERE ${condition}`,
    );
    return rows[0]?.n ?? 0;
  });
}

async function countCarriers(world: World): Promise<number> {
  return await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ n: number }>(
      "SELECT count(DISTINCT carrier)::int AS n FROM deliveries",
    );
    return rows[0]?.n ?? 0;
  });
}

/** Waits until no row matches. Returns the seconds. */
async function untilNone(world: World, condition: string): Promise<number> {
  const began = monotonicMs();
  for (;;) {
    const left = await count(world, condition);
    const seconds = (monotonicMs() - began) / 1_000;
    if (left === 0) {
      return seconds;
    }
    if (seconds * 1_000 > WAIT_MAX_MS) {
      throw new Error(`${left} deliveries are still ${condition}`);
    }
    await delay(POLL_MS);
  }
}

/** Returns the size of Temporal's databases, in bytes. */
async function temporalBytes({ stack }: Bench): Promise<number> {
  return await withClient(stack.postgres.adminUrl, async (client) => {
    const { rows } = await client.query<{ bytes: string }>(
      "SELECT sum(pg_database_size(name)) AS bytes FROM unnest($1::text[]) AS name",
      [stack.temporal.databases],
    );
    return Number(rows[0]?.bytes ?? 0);
  });
}

/** The rows: a steady flow without and beside them, and how fast they expire without workflows. */
async function measureRows(bench: Bench): Promise<Readonly<Record<string, unknown>>> {
  const world = await bench.world({}, "open-dead-letters");
  const group = await bench.tenTenants(world);
  const flow = {
    group,
    events: PER_SECOND * bench.seconds(SECONDS),
    pace: { kind: "open", perSecond: PER_SECOND },
  } as const;
  const none = await bench.measure(world, { name: "open-dead-letters-none", warmUp: 200, flow });
  const letters = bench.events(LETTERS);
  bench.log(`inserting ${letters} dead letters`);
  await fill(world, await makeQueue(world, "letters", 10), letters);
  const beside = await bench.measure(world, { name: "open-dead-letters-beside", warmUp: 200, flow });
  const ending = bench.events(EXPIRED_AT_ONCE);
  const before = sum(cpuSeconds(world.roots.system));
  await withClient(world.adminDatabaseUrl, async (client) => {
    await client.query(
      `UPDATE deliveries d SET expires_at = now()
        FROM (SELECT day, id FROM deliveries WHERE state = 'DEAD_LETTERED' LIMIT $1) e
        WHERE d.day = e.day AND d.id = e.id`,
      [ending],
    );
  });
  const seconds = await untilNone(world, "state = 'DEAD_LETTERED' AND expires_at <= now()");
  return {
    letters,
    p50_ratio: round(beside.latency_ms.p50 / none.latency_ms.p50, 2),
    p99_ratio: round(beside.latency_ms.p99 / none.latency_ms.p99, 2),
    cpu_ratio: round((beside.cpu_s_per_1000["total"] ?? 0) / (none.cpu_s_per_1000["total"] ?? 1), 2),
    expired_at_once: ending,
    expired_per_second: round(ending / seconds, 0),
    expiry_cpu_s_per_1000: round(((sum(cpuSeconds(world.roots.system)) - before) / ending) * 1_000, 3),
  };
}

/** The sample: real dead letters of a receiver that answers 500, and their end after a short week. */
async function measureWorkflows(bench: Bench): Promise<Readonly<Record<string, unknown>>> {
  const deadLetterMs = bench.quick ? DEAD_LETTER_MS / 2 : DEAD_LETTER_MS;
  const settings = {
    SIGNET_RETRY_WINDOW_MS: String(RETRY_WINDOW_MS),
    SIGNET_DEAD_LETTER_MS: String(deadLetterMs),
  };
  const world = await bench.world(settings, "expiring-letters");
  const group = await bench.tenTenants(world);
  const letters = bench.events(SAMPLE);
  await bench.load.behave(group.endpoints, { kind: "fail", attempts: Number.MAX_SAFE_INTEGER });
  const bytes = await temporalBytes(bench);
  const used = (): number => sum(cpuSeconds(world.roots.system));
  const cpu = [used()];
  const run = await Run.begin(world, bench.load, { events: letters });
  const { accepted } = await run.publish({
    group,
    events: letters,
    pace: { kind: "open", perSecond: SAMPLE_PER_SECOND },
  });
  await untilNone(world, "state IN ('QUEUED', 'RETRYING')");
  cpu.push(used());
  const occupied = (await temporalBytes(bench)) - bytes;
  const workflows = await countCarriers(world);
  const open = await count(world, "state = 'DEAD_LETTERED'");
  await untilNone(world, "state = 'DEAD_LETTERED'");
  cpu.push(used());
  const expired = await count(world, "state = 'EXPIRED'");
  await run.usage();
  await bench.load.behave(group.endpoints, { kind: "ok" });
  const [start = 0, dead = 0, end = 0] = cpu;
  return {
    letters: accepted,
    expired,
    workflows,
    temporal_bytes_per_workflow: round(occupied / workflows, 0),
    cpu_s_per_1000_until_dead: round(((dead - start) / accepted) * 1_000, 2),
    // Includes the idle load while they wait.
    cpu_s_per_1000_until_expired: round(((end - dead) / open) * 1_000, 2),
  };
}

/** Events for disabled endpoints: dead letters at once, which share workflows. */
async function measureDisabled(bench: Bench): Promise<Readonly<Record<string, unknown>>> {
  const world = await bench.world({}, "disabled-endpoints");
  const group = await bench.tenTenants(world);
  await withClient(world.adminDatabaseUrl, async (client) => {
    await client.query("UPDATE endpoints SET state = 'DISABLED'");
  });
  const letters = SAMPLE_PER_SECOND * bench.seconds(DISABLED_SECONDS);
  const bytes = await temporalBytes(bench);
  const start = sum(cpuSeconds(world.roots.system));
  const run = await Run.begin(world, bench.load, { events: letters });
  const pace = { kind: "open", perSecond: SAMPLE_PER_SECOND } as const;
  const { accepted } = await run.publish({ group, events: letters, pace });
  const carriedSeconds = await untilNone(world, "state = 'DEAD_LETTERED' AND carrier IS NULL");
  const used = sum(cpuSeconds(world.roots.system)) - start;
  await run.usage();
  return {
    letters: accepted,
    workflows: await countCarriers(world),
    seconds_until_the_last_has_a_workflow: round(carriedSeconds, 1),
    temporal_bytes_per_letter: round(((await temporalBytes(bench)) - bytes) / accepted, 0),
    cpu_s_per_1000: round((used / accepted) * 1_000, 2),
  };
}

async function runScenario(bench: Bench): Promise<void> {
  bench.findings["open_dead_letters"] = {
    disabled_endpoints: await measureDisabled(bench),
    rows: await measureRows(bench),
    sample_with_workflows: await measureWorkflows(bench),
  };
}

export const openDeadLetters: Scenario = {
  name: "open-dead-letters",
  about:
    "50/s to disabled endpoints; 1,000,000 open dead letters beside 50/s and the expiry of 50,000 at once; 2,000 of a failing receiver until they expire",
  run: runScenario,
};
