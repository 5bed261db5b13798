/** The clocks of the api and of PostgreSQL are apart, by less and by more than a process may be wrong. */
import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "#test/bench/load/monotonic.ts";
import { round } from "#test/bench/report/measurement.ts";
import type { ChaosCase, SetScene } from "../cases.ts";
import { countLedger } from "../ledger.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { fatalAnswers, longestGap, promises } from "../run-case.ts";
import type { TargetResult } from "#test/bench/report/targets.ts";
import { healthyGroup, repeatedAnswers } from "../traffic.ts";
import { type Scene, Trial } from "../trial.ts";
import { countOf, until } from "./tenant-requests.ts";

/** How far the api is ahead, in seconds. */
const OFFSETS_S = [20, -20, 400, -400];
/** Beyond this, nobody can say which clock is right (decision 25). */
const WRONG_S = 30;
const PER_SECOND = 20;
/** How long each offset lasts after it was noticed, and the events that are published for it. */
const LASTS_MS = { full: 20_000, quick: 5_000 } as const;
const EVENTS_MS = { full: 35_000, quick: 14_000 } as const;
const NOTICED_MS = 60_000;
/** A process goes on within a minute after its clock is right. */
const RIGHT_MS = 60_000;
/** Answers of a token that is issued name the database's time. */
const TOKEN_MS = 5_000;
const FUTURE = `SELECT count(*)::int AS n FROM deliveries
  WHERE created_at > now() + interval '5 seconds' OR created_at < now() - interval '15 minutes'`;
const GAP_SECONDS = 5;

/** What the api says at one offset. */
interface Said {
  readonly offset_s: number;
  readonly ready: number;
  readonly failing: unknown;
  readonly token: number;
  readonly token_code: unknown;
  /** How far the token's time is from the right one; 0 without a token. */
  readonly token_off_ms: number;
  readonly right_again_s: number;
}

async function readyz(url: string): Promise<{ status: number; failing: unknown }> {
  const response = await fetch(`${url}/readyz`);
  const body = (await response.json()) as Readonly<Record<string, unknown>>;
  return { status: response.status, failing: body["failing"] };
}

async function askForToken({ world }: Scene, clientId: string, clientSecret: string) {
  const response = await fetch(`${world.signet.apiUrl}/v1/auth/token`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      client_id: clientId,
      client_secret: clientSecret,
      grant_type: "client_credentials",
    }),
  });
  const body = (await response.json()) as { access_token?: string; code?: string; error?: string };
  const [, payload = ""] = (body.access_token ?? "").split(".");
  const claims = JSON.parse(Buffer.from(payload, "base64url").toString("utf8") || "{}") as { iat?: number };
  const offMs = claims.iat === undefined ? 0 : Math.abs(claims.iat * 1_000 - Date.now());
  return { status: response.status, code: body.code ?? body.error, offMs };
}

async function skewOf(metricsUrl: string): Promise<number> {
  const text = await (await fetch(`${metricsUrl}/metrics`)).text();
  return Number(/^signet_clock_skew_seconds(?:\{[^}]*\})? (\S+)$/m.exec(text)?.[1]);
}

/** Sets the api's clock wrong for a while, and says what it answered. */
async function apart(
  scene: SetScene,
  offsetS: number,
  lastsMs: number,
  client: readonly [string, string],
): Promise<Said> {
  const { world, clock } = scene;
  const [api] = world.signet.apis;
  if (clock === undefined || api === undefined) {
    throw new Error("this case needs an adjustable clock");
  }
  const noticed = async (seconds: number): Promise<boolean> =>
    Math.abs((await skewOf(api.metricsUrl)) - seconds) < 2;
  await clock.jump(offsetS * 1_000);
  await until(async () => await noticed(offsetS), `the api to be ${offsetS} s ahead`, NOTICED_MS);
  const { status, failing } = await readyz(api.url);
  const token = await askForToken(scene, ...client);
  await delay(lastsMs);
  await clock.jump(0);
  const rightAt = performance.now();
  await until(
    async () => (await readyz(api.url)).status === 200 && (await noticed(0)),
    "the api to be ready",
    NOTICED_MS,
  );
  return {
    offset_s: offsetS,
    ready: status,
    failing: failing ?? [],
    token: token.status,
    token_code: token.code,
    token_off_ms: token.offMs,
    right_again_s: round((performance.now() - rightAt) / 1_000, 2),
  };
}

/** Compares what was said with the promises: a small difference changes nothing, a large one is named. */
function saidTargets({
  offset_s: offset,
  ready,
  failing,
  token,
  token_code: code,
  token_off_ms: off,
  right_again_s: again,
}: Said): TargetResult[] {
  const wrong = Math.abs(offset) > WRONG_S;
  const names = JSON.stringify(failing).includes("clock");
  const issues = token === 200;
  const refuses = token === 503 && (code === "CLOCK_SKEWED" || code === "temporarily_unavailable");
  return [
    atMost(
      `${offset} s: readiness is not ${wrong ? "503 that names the clock" : "200"}`,
      (wrong ? ready === 503 && names : ready === 200) ? 0 : 1,
      0,
    ),
    atMost(
      `${offset} s: tokens are not ${wrong ? "refused" : "issued"}`,
      (wrong ? refuses : issues) ? 0 : 1,
      0,
    ),
    atMost(`${offset} s: a token's time is wrong by ms`, off, TOKEN_MS),
    atMost(`${offset} s: ready again after s`, again, RIGHT_MS / 1_000),
  ];
}

async function clocksApart(scene: SetScene): Promise<CaseOutcome> {
  const { world, quick } = scene;
  const size = quick ? "quick" : "full";
  const group = await healthyGroup(scene);
  const [tenant] = group.tenants;
  const events = Math.round((OFFSETS_S.length * EVENTS_MS[size] * PER_SECOND) / 1_000);
  const trial = await Trial.begin(scene, events);
  try {
    const publishing = trial.publish([
      { from: 0, count: events, group, pace: { kind: "open", perSecond: PER_SECOND } },
    ]);
    await trial.untilArrived(PER_SECOND);
    const fromMs = monotonicMs();
    const said: Said[] = [];
    for (const offset of OFFSETS_S) {
      said.push(
        await apart(scene, offset, LASTS_MS[size], [tenant?.clientId ?? "", tenant?.clientSecret ?? ""]),
      );
    }
    const answers = repeatedAnswers(await publishing);
    const settled = await trial.settle();
    const fates = await trial.fates();
    const ledger = countLedger(fates);
    return {
      ledger,
      findings: { events, sent_again: answers, said, longest_gap_s: round(longestGap(fates, fromMs), 2) },
      targets: [
        ...promises(ledger.accepted, ledger.lost, events, settled),
        atMost("acknowledged twice", ledger.duplicated, 0),
        atMost("longest time without an arrival, s", longestGap(fates, fromMs), GAP_SECONDS),
        atMost("deliveries with a wrong time", await countOf(world, FUTURE), 0),
        fatalAnswers(answers),
        ...said.flatMap(saidTargets),
      ],
    };
  } finally {
    await trial.end();
  }
}

export const CLOCKS_APART: ChaosCase = {
  name: "clocks-apart",
  about: "the api's clock is 20 s and 400 s ahead of PostgreSQL's and behind it",
  setting: { wrongClock: "api" },
  run: clocksApart,
};
