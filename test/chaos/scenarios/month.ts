/** A month in an hour: the clocks of PostgreSQL and of all processes go on by a day, 31 times, beside traffic and retention. */
import { setTimeout as delay } from "node:timers/promises";
import { DAY_MS, utcDay } from "../../../src/domain/ids.ts";
import { type Postgres, withClient } from "../../bench/environment/postgres.ts";
import { accessToken } from "../../bench/environment/provision.ts";
import type { Settings } from "../../bench/environment/signet.ts";
import type { TenantGroup, World } from "../../bench/environment/world.ts";
import { round } from "../../bench/report/measurement.ts";
import { fillHistory } from "../../bench/scenarios/history.ts";
import { createJumpingClock, type JumpingClock } from "../../support/jumping-clock.ts";
import type { ChaosCase, SetScene } from "../cases.ts";
import { countLedger } from "../ledger.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { fatalAnswers } from "../run-case.ts";
import { runUpkeep, SHIFTED, startShifted } from "../shifted.ts";
import { healthyGroup, type Part, type PublishedPart, repeatedAnswers } from "../traffic.ts";
import { Trial } from "../trial.ts";
import { countOf, endpointIds, rowsOf, switchEndpoints, until } from "./tenant-requests.ts";

/** A short month still drops three days. */
const DAYS = { full: 31, quick: 12 } as const;
/** The least that the service accepts. Thirty days of full size would take 100 GB. */
const RETENTION_DAYS = 8;
/** Finished deliveries of a day, beside the published ones. */
const ROWS = { full: 1_000_000, quick: 10_000 } as const;
const SECONDS = { full: 20, quick: 4 } as const;
const PER_SECOND = 40;
/** Events of a disabled endpoint: dead letters at once, which outlive their day's partition by nothing or a day. */
const DOOMED_PER_SECOND = 4;
const PROBE_MS = 20;
const WAIT_MAX_MS = 300;
/** The size of the later days, times that of the days on which retention began. */
const PLATEAU = 1.15;
const SECOND_MS = 1_000;
const NOON_MS = DAY_MS / 2;
const READY_MS = 60_000;
const DROPPED_MS = 60_000;
const DRAIN = { idleMs: 60_000, maxMs: 180_000 };

/**
 * A clock that begins days before the machine's: PostgreSQL takes it at its starts, api and worker follow it while they
 * run. It is not ahead: under libfaketime, an alarm that ends a wait sees the machine's time, and PostgreSQL's limits would
 * never come. Now they come together with the first of them.
 */
class MonthClock {
  readonly postgres: Settings = { ...SHIFTED, FAKETIME: "+0" };
  readonly processes: JumpingClock;
  #offsetMs: number;

  /** It begins at noon, so that no day ends during its traffic. */
  constructor(processes: JumpingClock, days: number) {
    this.processes = processes;
    const noonMs = DAY_MS - ((Date.now() + NOON_MS) % DAY_MS);
    this.#offsetMs = Math.round(noonMs / SECOND_MS) * SECOND_MS - (days + 1) * DAY_MS;
  }

  now(): number {
    return Date.now() + this.#offsetMs;
  }

  async advance(ms: number): Promise<void> {
    this.#offsetMs += ms;
    Object.assign(this.postgres, { FAKETIME: String(this.#offsetMs / SECOND_MS) });
    await this.processes.jump(this.#offsetMs);
  }
}

/** Asks for a delivery every 20 ms, as a reader would, until it is ended. Returns the longest wait, in milliseconds. */
function probe(world: World, today: string): () => Promise<number> {
  const over = new AbortController();
  const asking = withClient(world.adminDatabaseUrl, async (client) => {
    let longest = 0;
    while (!over.signal.aborted) {
      const begun = performance.now();
      await client.query("SELECT FROM deliveries WHERE day = $1 LIMIT 1", [today]);
      longest = Math.max(longest, performance.now() - begun);
      await delay(PROBE_MS);
    }
    return longest;
  });
  return async () => {
    over.abort();
    return await asking;
  };
}

interface Month {
  readonly scene: SetScene;
  readonly world: World;
  readonly postgres: Postgres;
  readonly clock: MonthClock;
  readonly trial: Trial;
  readonly healthy: TenantGroup;
  readonly doomed: TenantGroup;
}

interface Day {
  readonly published: readonly PublishedPart[];
  readonly longestMs: number;
  readonly mib: number;
}

const sizeOf = ({ quick }: SetScene): "quick" | "full" => (quick ? "quick" : "full");

function plan({ scene, healthy, doomed }: Month, day: number): Part[] {
  const [seconds, days] = [SECONDS[sizeOf(scene)], DAYS[sizeOf(scene)]];
  const flowing = PER_SECOND * seconds;
  const dying = DOOMED_PER_SECOND * seconds;
  const pace = (perSecond: number): Part["pace"] => ({ kind: "open", perSecond });
  return [
    { from: day * flowing, count: flowing, group: healthy, pace: pace(PER_SECOND) },
    { from: days * flowing + day * dying, count: dying, group: doomed, pace: pace(DOOMED_PER_SECOND) },
  ];
}

/** Returns how many days are older than retention keeps. */
async function daysLeft(world: World, clock: MonthClock): Promise<number> {
  const oldest = utcDay(clock.now() - RETENTION_DAYS * DAY_MS);
  return await countOf(world, "SELECT count(*)::int AS n FROM partition_days() AS day WHERE day < $1", [
    oldest,
  ]);
}

async function live(month: Month, day: number): Promise<Day> {
  const { scene, world, clock, trial } = month;
  await fillHistory(world.adminDatabaseUrl, ROWS[sizeOf(scene)], 1);
  // As the worker does every hour: tomorrow has its partitions.
  await rowsOf(world, "SELECT ensure_day_partitions($1::date, 2)", [utcDay(clock.now())]);
  const end = probe(world, utcDay(clock.now()));
  const parts = plan(month, day);
  const publishing = trial.publish(parts);
  await runUpkeep(world);
  const published = await publishing;
  const arrived = (day + 1) * (parts[0]?.count ?? 0);
  await scene.load.drain(({ ok }) => ok >= arrived, DRAIN);
  const dropped = async (): Promise<boolean> => (await daysLeft(world, clock)) === 0;
  // A bound says what is left.
  await until(dropped, "retention", DROPPED_MS).catch(() => undefined);
  const longestMs = await end();
  const [size] = await rowsOf<{ mib: number }>(
    world,
    "SELECT (pg_database_size(current_database()) / 1048576)::float8 AS mib",
  );
  return { published, longestMs, mib: size?.mib ?? Number.NaN };
}

/**
 * Moves all clocks to the next day. PostgreSQL starts again, as at a fail-over: its processes cannot follow a clock that
 * jumps. Resolves when api and worker are ready again.
 */
async function nextDay({ world, postgres, clock }: Month): Promise<void> {
  await rowsOf(world, "CHECKPOINT");
  await postgres.process?.end();
  await clock.advance(DAY_MS);
  await postgres.process?.restart();
  const follows = async (): Promise<boolean> => {
    const [{ day } = { day: "" }] = await rowsOf<{ day: string }>(
      world,
      "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day",
    );
    const { apiUrl, workerMetricsUrl } = world.signet;
    const ready = await Promise.all(
      [apiUrl, workerMetricsUrl].map(async (url) => (await fetch(`${url}/readyz`)).ok),
    );
    return day === utcDay(clock.now()) && ready.every(Boolean);
  };
  await until(follows, "the processes to follow the clock", READY_MS);
}

async function makeDoomed(world: World): Promise<TenantGroup> {
  const doomed = await world.group({ name: "doomed", tenants: 1, endpointsPerTenant: 1, fanOut: "one" });
  const [tenant] = doomed.tenants;
  const token = tenant === undefined ? "" : await accessToken(world.signet, tenant);
  const base = world.signet.apiUrl;
  await switchEndpoints(base, token, await endpointIds(base, token), "disable");
  return doomed;
}

function outcomeOf(days: readonly Day[], month: Omit<Month, "trial">, ended: CaseOutcome): CaseOutcome {
  const sizes = days.map(({ mib }) => mib);
  const most = (from: number, to?: number): number => Math.max(...sizes.slice(from, to));
  // Retention drops the first day on the tenth.
  const plateau = most(RETENTION_DAYS, RETENTION_DAYS + 2);
  const waits = days.map(({ longestMs }) => longestMs);
  return {
    ledger: ended.ledger,
    findings: {
      days: days.length,
      rows_each_day: ROWS[sizeOf(month.scene)],
      longest_wait_ms: waits.map((ms) => round(ms, 0)),
      database_mib: sizes.map((mib) => round(mib, 0)),
      ...ended.findings,
    },
    targets: [
      ...ended.targets,
      atMost("longest wait of a read, ms", Math.max(...waits), WAIT_MAX_MS),
      atMost(
        "largest database after retention began, times then",
        most(RETENTION_DAYS + 2) / plateau,
        PLATEAU,
      ),
    ],
  };
}

async function liveThrough(month: Month): Promise<CaseOutcome> {
  const { world, clock, trial, scene } = month;
  const days: Day[] = [];
  for (let day = 0; day < DAYS[sizeOf(scene)]; day += 1) {
    if (day > 0) {
      await nextDay(month);
    }
    days.push(await live(month, day));
  }
  const good = DAYS[sizeOf(scene)] * PER_SECOND * SECONDS[sizeOf(scene)];
  const fates = await trial.fates();
  const ledger = countLedger(fates.filter(({ index }) => index < good));
  const letters = countLedger(fates.filter(({ index }) => index >= good));
  const answers = repeatedAnswers(days.flatMap(({ published }) => published));
  const overdue = `SELECT count(*)::int AS n FROM deliveries
    WHERE state IN ('QUEUED', 'RETRYING') OR (state = 'DEAD_LETTERED' AND expires_at < now() - interval '1 hour')`;
  const strayed = "SELECT count(*)::int AS n FROM deliveries_default WHERE state <> 'DEAD_LETTERED'";
  return outcomeOf(days, month, {
    ledger,
    findings: { sent_again: answers, dead_letters: letters.accepted },
    targets: [
      atMost("events never accepted", trial.events - ledger.accepted - letters.accepted, 0),
      atMost("lost", ledger.lost, 0),
      atMost("acknowledged twice", ledger.duplicated, 0),
      atMost("deliveries open at the end", await countOf(world, overdue), 0),
      atMost("finished rows outside their day's partition", await countOf(world, strayed), 0),
      atMost("days that retention left", await daysLeft(world, clock), 0),
      fatalAnswers(answers),
    ],
  });
}

async function month(scene: SetScene): Promise<CaseOutcome> {
  const clock = new MonthClock(await createJumpingClock(scene.stack.directory), DAYS[sizeOf(scene)]);
  await clock.advance(0);
  const { NODE_OPTIONS: preload = "", ...signet } = clock.processes.environment;
  const follows = { node: [preload] };
  const { world, postgres, close } = await startShifted(scene, {
    environment: clock.postgres,
    signet: signet as Settings,
    shape: { api: follows, worker: follows },
    settings: { SIGNET_RETENTION_DAYS: String(RETENTION_DAYS) },
  });
  try {
    const { load } = scene;
    const healthy = await healthyGroup({ world, load });
    const doomed = await makeDoomed(world);
    const size = sizeOf(scene);
    const events = DAYS[size] * SECONDS[size] * (PER_SECOND + DOOMED_PER_SECOND);
    const trial = await Trial.begin({ ...scene, world }, events);
    try {
      return await liveThrough({ scene, world, postgres, clock, trial, healthy, doomed });
    } finally {
      await trial.end();
    }
  } finally {
    await close();
  }
}

export const MONTH: ChaosCase = {
  name: "month",
  about: "all clocks go on by a day 31 times; a day has 1,000,000 deliveries, and retention keeps eight days",
  run: month,
};
