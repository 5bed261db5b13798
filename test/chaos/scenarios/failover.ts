/** PostgreSQL's primary is killed, and its standby takes over behind the same address. */
import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "#test/bench/load/monotonic.ts";
import { round } from "#test/bench/report/measurement.ts";
import type { ChaosCase } from "../cases.ts";
import { type PassedFault, readiness } from "../faults.ts";
import { countLedger, type Fate } from "../ledger.ts";
import { undelivered, untilNone } from "../observe.ts";
import { type Pair, startPair } from "../replication.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { fatalAnswers, flowsAgain, promises, repeatable } from "../run-case.ts";
import { planTraffic, repeatedAnswers, sizeOf } from "../traffic.ts";
import { type Scene, Trial } from "../trial.ts";
import { countOf } from "./tenant-requests.ts";

const KINDS = ["sync", "async"] as const;
type Kind = (typeof KINDS)[number];

/** How long replication has been cut when the primary dies. */
const LAG_MS = { full: 10_000, quick: 3_000 } as const;
/** Time in which a fail-over manager sees that the primary is dead. */
const NOTICED_MS = 1_000;
const RECOVERED_SECONDS = 10;
const READY_TIMEOUT_MS = 60_000;
const POLL_MS = 50;
/** A delivery that the workflow of a lost claim does not know gets another one within two minutes. */
const DELIVERED_MS = 180_000;
/** What is lost does not arrive any more. */
const DRAIN = { idleMs: 3_000, maxMs: 60_000 };
/** Their retries outlast the fail-over. */
const FAILING = [1, 2, 3].map(
  (attempts) => ({ behaviour: { kind: "fail", attempts }, punctual: true }) as const,
);

/** Of a request that was under way when its delivery was lost. No delivery counts it. */
const UNCLAIMED = `SELECT count(*)::int AS n FROM attempts a WHERE a.duration_ms IS NOT NULL
  AND NOT EXISTS (SELECT FROM deliveries d WHERE d.day = a.day AND d.id = a.delivery_id)`;

interface FailedOver extends PassedFault {
  /** Events accepted in this period may be lost: from the cut of replication to the end of the primary. */
  readonly gone: readonly [fromMs: number, toMs: number];
  readonly readyS: number;
}

/** Resolves to the seconds until the api is ready. */
async function secondsToReady({ world }: Pair): Promise<number> {
  const [api] = world.signet.apis;
  const beganMs = monotonicMs();
  while ((await readiness(api?.metricsUrl ?? "")) !== 200 && monotonicMs() - beganMs < READY_TIMEOUT_MS) {
    await delay(POLL_MS);
  }
  return (monotonicMs() - beganMs) / 1_000;
}

async function failOver(trial: Trial, pair: Pair, lagMs: number): Promise<FailedOver> {
  const cutMs = lagMs === 0 ? undefined : await pair.cutReplication();
  await delay(lagMs);
  const inFlight = await trial.inFlight();
  const struckAtMs = monotonicMs();
  await pair.primary.kill();
  const deadMs = monotonicMs();
  await delay(NOTICED_MS);
  await pair.promote();
  const backAtMs = monotonicMs();
  return {
    inFlight,
    struckAtMs,
    backAtMs,
    takesWorkMs: backAtMs,
    gone: [cutMs ?? deadMs, deadMs],
    readyS: await secondsToReady(pair),
  };
}

/** Tells apart what was lost within the lag and what must not be lost. */
function losses(fates: readonly Fate[], [fromMs, toMs]: FailedOver["gone"]) {
  const within = ({ acceptedMs }: Fate): boolean => acceptedMs >= fromMs && acceptedMs <= toMs;
  const lost = fates.filter(
    ({ acceptedMs, acknowledgements }) => !Number.isNaN(acceptedMs) && acknowledgements === 0,
  );
  return {
    acceptedWithin: fates.filter(within).length,
    lostWithin: lost.filter(within).length,
    lostBeside: lost.filter((fate) => !within(fate)).length,
  };
}

async function failOverWhileFlowing(scene: Scene, pair: Pair, kind: Kind): Promise<CaseOutcome> {
  const { quick } = scene;
  const size = sizeOf("long", quick);
  const lagMs = kind === "sync" ? 0 : LAG_MS[quick ? "quick" : "full"];
  const own = { ...scene, world: pair.world };
  const { parts } = await planTraffic(own, { pace: "steady", hostile: FAILING }, size);
  await pair.untilStreamed();
  await pair.synchronous(kind === "sync");
  const trial = await Trial.begin(own, size.events);
  try {
    const publishing = trial.publish(parts);
    await trial.untilArrived((parts[0]?.count ?? 0) / 2);
    const failed = await failOver(trial, pair, lagMs);
    const answers = repeatedAnswers(await publishing);
    await untilNone(async () => await undelivered(pair.world), DELIVERED_MS);
    const quiet = await trial.settle(DRAIN);
    const unclaimed = await countOf(pair.world, UNCLAIMED);
    const settled = { ...quiet, miscounted: quiet.miscounted - unclaimed };
    const fates = await trial.fates();
    const ledger = countLedger(fates);
    const { acceptedWithin, lostWithin, lostBeside } = losses(fates, failed.gone);
    const flows = flowsAgain(fates, failed.takesWorkMs);
    return {
      ledger,
      findings: {
        events: size.events,
        sent_again: answers,
        in_flight: failed.inFlight,
        accepted_within_the_lag: acceptedWithin,
        lost_within_the_lag: lostWithin,
        attempts_of_lost_deliveries: unclaimed,
        ready_after_s: round(failed.readyS, 2),
        flows_again_s: round(flows, 2),
        failed_over_s: round((failed.backAtMs - failed.struckAtMs) / 1_000, 2),
      },
      targets: [
        ...promises(ledger.accepted, lostBeside, size.events, settled),
        atMost("lost of what was accepted within the lag", lostWithin, acceptedWithin),
        atMost("attempts of lost deliveries", unclaimed, acceptedWithin),
        atMost("acknowledged twice", ledger.duplicated, repeatable({ fates, faults: [failed] })),
        atMost("api is ready after s", failed.readyS, RECOVERED_SECONDS),
        atMost("flows again after s", flows, RECOVERED_SECONDS),
        fatalAnswers(answers),
      ],
    };
  } finally {
    await trial.end();
  }
}

function failover(kind: Kind): (scene: Scene) => Promise<CaseOutcome> {
  return async (scene) => {
    await scene.world.stop();
    const pair = await startPair(scene, `failover-${kind}`);
    try {
      return await failOverWhileFlowing(scene, pair, kind);
    } finally {
      await pair.close();
    }
  };
}

export const FAILOVERS: readonly ChaosCase[] = KINDS.map((kind) => ({
  name: `failover-${kind}`,
  about:
    kind === "sync"
      ? "kill -9 of PostgreSQL's primary; its synchronous standby takes over"
      : "kill -9 of PostgreSQL's primary 10 s after replication was cut; its standby takes over",
  run: failover(kind),
}));
