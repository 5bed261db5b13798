/** The clocks of PostgreSQL and of all processes run over the end of a day, a month and a year while events flow. */
import { setTimeout as delay } from "node:timers/promises";
import { utcDay } from "#domain/ids.ts";
import { accessToken } from "#test/bench/environment/provision.ts";
import type { World } from "#test/bench/environment/world.ts";
import { monotonicMs } from "#test/bench/load/monotonic.ts";
import { round } from "#test/bench/report/measurement.ts";
import type { ChaosCase, SetScene } from "../cases.ts";
import { countLedger } from "../ledger.ts";
import { openCarriers } from "../observe.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { fatalAnswers, longestGap } from "../run-case.ts";
import { healthyGroup, type Part, repeatedAnswers } from "../traffic.ts";
import { Trial } from "../trial.ts";
import { inShiftedWorld, runUpkeep, type Shifted, type ShiftedClock } from "./shifted-world.ts";
import { countOf, endpointIds, must, rowsOf, switchEndpoints, until } from "./tenant-requests.ts";

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;
/** `SIGNET_RETENTION_DAYS` by default. */
const RETENTION_DAYS = 30;
/** Time until the end of the year while endpoints are made, and after the restart that follows. */
const MAKING_S = 3_600;
const LEAD_S = { full: 120, quick: 40 } as const;
/** How long events flow before the end of the year and after it. */
const BEFORE_S = { full: 60, quick: 12 } as const;
const AFTER_S = { full: 60, quick: 12 } as const;
const HEALTHY_PER_SECOND = 30;
/** Events of endpoints that fail at first, and of endpoints that are disabled. */
const FAILING_PER_SECOND = 4;
/** How long dead letters are kept: past the end of the year. */
const KEPT_MS = 20_000;
const GAP_SECONDS = 5;
const ENDED_MS = 120_000;
const DRAIN = { idleMs: 60_000, maxMs: 180_000 };

/** The end of the year, in Unix time. */
const END_MS = Date.UTC(new Date().getUTCFullYear() + 1, 0, 1);

/** Returns the shift with which the year ends in that time. */
function shiftTo(seconds: number): number {
  return Math.round((END_MS - Date.now()) / SECOND_MS) - seconds;
}

function leftMs(clock: ShiftedClock): number {
  return END_MS - clock.now();
}

interface Groups {
  readonly healthy: Part["group"];
  readonly failing: Part["group"];
  readonly doomed: Part["group"];
}

async function makeGroups(world: World, load: SetScene["load"]): Promise<Groups> {
  const one = { tenants: 1, endpointsPerTenant: 1, fanOut: "one" } as const;
  const healthy = await healthyGroup({ world, load });
  const failing = await world.group({ ...one, name: "failing" });
  const doomed = await world.group({ ...one, name: "doomed" });
  await load.behave(failing.endpoints, { kind: "fail", attempts: 1 });
  const [tenant] = doomed.tenants;
  const token = tenant === undefined ? "" : await accessToken(world.signet, tenant);
  const base = world.signet.apiUrl;
  await switchEndpoints(base, token, await endpointIds(base, token), "disable");
  return { healthy, failing, doomed };
}

/** What the service is asked after the year has ended. */
async function afterwards(world: World, { healthy, doomed }: Groups, clock: ShiftedClock) {
  const base = world.signet.apiUrl;
  const [tenant] = healthy.tenants;
  const token = tenant === undefined ? "" : await accessToken(world.signet, tenant);
  const [endpoint = ""] = await endpointIds(base, token);
  const get = async (path: string): Promise<Readonly<Record<string, unknown>>> =>
    await must({ base, token, method: "GET", path });
  const secrets = (await get(`/v1/webhooks/endpoints/${endpoint}/secret`))["data"] as readonly {
    readonly version: number;
    readonly state: string;
  }[];
  const [list = ""] = (await get("/.well-known/status-lists"))["status_lists"] as string[];
  const answer = await fetch(base + new URL(list).pathname);
  const [, payload = ""] = (await answer.text()).split(".");
  const claims = JSON.parse(Buffer.from(payload, "base64url").toString("utf8")) as {
    iat: number;
    exp: number;
  };
  const entries = await countOf(world, "SELECT count(*)::int AS n FROM clog WHERE type <> 'tokens.issued'");
  const checkpoint = await get("/v1/compliance/checkpoint");
  const oldest = await rowsOf<{ n: string | null }>(world, "SELECT to_regclass($1)::text AS n", [
    `deliveries_${utcDay(END_MS - (RETENTION_DAYS + 1) * DAY_MS).replaceAll("-", "")}`,
  ]);
  const days = await rowsOf<{ day: string; part: string; n: number }>(
    world,
    `SELECT day::text, tableoid::regclass::text AS part, count(*)::int AS n FROM deliveries GROUP BY 1, 2 ORDER BY 1`,
  );
  const ended = "SELECT count(*)::int AS n FROM deliveries WHERE tenant_id = $1 AND state <> 'EXPIRED'";
  return {
    rotated: secrets.find(({ state }) => state === "CURRENT")?.version ?? 0,
    list: {
      status: answer.status,
      valid: claims.iat * SECOND_MS <= clock.now() && claims.exp * SECOND_MS > clock.now(),
    },
    checkpoint: { size: Number(checkpoint["size"]), entries },
    oldest: oldest[0]?.n ?? null,
    days,
    notEnded: await countOf(world, ended, [doomed.tenants[0]?.id]),
  };
}

/** Begins a rotation whose new secret is in use when the year has ended, and makes a day that retention drops then. */
async function prepare(world: World, { healthy }: Groups, clock: ShiftedClock): Promise<void> {
  const base = world.signet.apiUrl;
  const [tenant] = healthy.tenants;
  const token = tenant === undefined ? "" : await accessToken(world.signet, tenant);
  const [endpoint = ""] = await endpointIds(base, token);
  const overlap_seconds = Math.max(1, Math.round(leftMs(clock) / SECOND_MS) + 2);
  const path = `/v1/webhooks/endpoints/${endpoint}/secret/rotate`;
  await must({ base, token, method: "POST", path, body: { overlap_seconds } });
  await rowsOf(world, "SELECT ensure_day_partitions($1::date, 1)", [
    utcDay(END_MS - (RETENTION_DAYS + 1) * DAY_MS),
  ]);
}

function plan(
  { healthy, failing, doomed }: Groups,
  seconds: number,
): { parts: Part[]; good: number; all: number } {
  const good = (HEALTHY_PER_SECOND + FAILING_PER_SECOND) * seconds;
  const pace = (perSecond: number): Part["pace"] => ({ kind: "open", perSecond });
  const [flowing, few] = [HEALTHY_PER_SECOND * seconds, FAILING_PER_SECOND * seconds];
  const parts = [
    { from: 0, count: flowing, group: healthy, pace: pace(HEALTHY_PER_SECOND) },
    { from: flowing, count: few, group: failing, pace: pace(FAILING_PER_SECOND) },
    { from: good, count: few, group: doomed, pace: pace(FAILING_PER_SECOND) },
  ];
  return { parts, good, all: good + few };
}

interface Year extends Shifted {
  readonly groups: Groups;
}

async function overTheEnd(scene: SetScene, { world, groups, clock, restart }: Year): Promise<CaseOutcome> {
  const { load } = scene;
  const size = scene.quick ? "quick" : "full";
  await clock.shiftTo(shiftTo(LEAD_S[size]));
  await restart();
  await prepare(world, groups, clock);
  const { parts, good, all } = plan(groups, BEFORE_S[size] + AFTER_S[size]);
  const trial = await Trial.begin({ ...scene, world }, all);
  try {
    await delay(Math.max(0, leftMs(clock) - BEFORE_S[size] * SECOND_MS));
    const endsAfterMs = leftMs(clock);
    const fromMs = monotonicMs();
    const published = await trial.publish(parts);
    await load.drain(({ ok }) => ok >= good, DRAIN);
    await runUpkeep(world);
    const done = async (): Promise<boolean> => {
      const { oldest, checkpoint, notEnded } = await afterwards(world, groups, clock);
      return oldest === null && checkpoint.size >= checkpoint.entries && notEnded === 0;
    };
    // The bounds below say what did not end.
    await until(done, "what failed to end", ENDED_MS).catch(() => undefined);
    const fates = await trial.fates();
    const goodFates = fates.filter(({ index }) => index < good);
    const healthyFates = fates.filter(({ index }) => index < (parts[0]?.count ?? 0));
    const ledger = countLedger(goodFates);
    const after = await afterwards(world, groups, clock);
    const gap = longestGap(healthyFates, fromMs + SECOND_MS);
    const fits = after.days.every(({ day, part }) => part === `deliveries_${day.replaceAll("-", "")}`);
    return {
      ledger,
      findings: {
        year_ends_after_s: round(endsAfterMs / SECOND_MS, 1),
        sent_again: repeatedAnswers(published),
        longest_gap_s: round(gap, 2),
        open_workflows: await openCarriers(world),
        ...after,
      },
      targets: [
        atMost("events never accepted", all - countLedger(fates).accepted, 0),
        atMost("lost", ledger.lost, 0),
        atMost("acknowledged twice", ledger.duplicated, 0),
        atMost("longest time without an arrival, s", gap, GAP_SECONDS),
        atMost("the year did not end meanwhile", endsAfterMs > 0 && after.days.length === 2 ? 0 : 1, 0),
        atMost("rows outside their day's partition", fits ? 0 : 1, 0),
        atMost("failed deliveries that have not expired", after.notEnded, 0),
        atMost("days that retention left", after.oldest === null ? 0 : 1, 0),
        atMost("rotations that did not happen", after.rotated === 2 ? 0 : 1, 0),
        atMost("status lists that are not valid", after.list.status === 200 && after.list.valid ? 0 : 1, 0),
        atMost("entries without a checkpoint", after.checkpoint.entries - after.checkpoint.size, 0),
        fatalAnswers(repeatedAnswers(published)),
      ],
    };
  } finally {
    await trial.end();
  }
}

async function yearEnd(scene: SetScene): Promise<CaseOutcome> {
  const settings = { SIGNET_DEAD_LETTER_MS: String(KEPT_MS), SIGNET_STATUS_LIST_AUDIENCES: "signet" };
  return await inShiftedWorld(scene, { seconds: shiftTo(MAKING_S), settings }, async (shifted) => {
    const groups = await makeGroups(shifted.world, scene.load);
    return await overTheEnd(scene, { ...shifted, groups });
  });
}

export const YEAR_END: ChaosCase = {
  name: "year-end",
  about: "the clocks of PostgreSQL and all processes run over the end of the year",
  run: yearEnd,
};
