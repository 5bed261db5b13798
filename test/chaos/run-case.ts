/** Carries out one case: publish, break something in the middle, wait until all is quiet, sum up. */
import { round } from "../bench/report/measurement.ts";
import type { Fault, PassedFault } from "./faults.ts";
import { countLedger, type Fate } from "./ledger.ts";
import { timedOutAttempts } from "./observe.ts";
import { atMost, type CaseOutcome, type Target } from "./result.ts";
import { startBalancer } from "./scenarios/balancer.ts";
import { type Part, planTraffic, repeatedAnswers, type Size, type TrafficShape } from "./traffic.ts";
import { type Scene, type Settled, Trial } from "./trial.ts";

/** A case of events in whose middle something fails. */
export interface FaultCase extends TrafficShape {
  readonly faults: readonly Fault[];
  /** Within so many seconds of the return deliveries flow again. */
  readonly flowSeconds: number;
  /** The longest time without an arrival, from the fault on: where others go on. */
  readonly gapSeconds?: number;
  /** Events accepted before the return have arrived within so many seconds of it. */
  readonly drainedSeconds?: number;
  /** No attempt is on record that did not arrive: nothing keeps a receiver from being reached. */
  readonly everyAttemptArrives?: true;
}

/** Makes the faults, spread over the arrivals of the first part. */
async function breakThings(
  trial: Trial,
  faults: readonly Fault[],
  main: Part | undefined,
  size: Size,
): Promise<PassedFault[]> {
  const passed: PassedFault[] = [];
  for (const [index, fault] of faults.entries()) {
    const share = fault.share ?? (index + 1) / (faults.length + 1);
    await trial.untilArrived(share * (main?.count ?? 0));
    passed.push(await fault.strike(trial, size));
  }
  return passed;
}

const firstOf = ({ requestsMs }: Fate): number => requestsMs[0] ?? Number.NaN;

/**
 * Seconds until something arrived after the instant, and something that was accepted after it, if anything was. 0 when
 * everything had arrived by then: nothing was left to flow.
 */
export function flowsAgain(fates: readonly Fate[], backAtMs: number): number {
  const late = fates.filter((fate) => !(firstOf(fate) < backAtMs));
  if (late.length === 0) {
    return 0;
  }
  const fresh = late.filter(({ acceptedMs }) => acceptedMs >= backAtMs);
  const counted = fresh.length > 0 ? fresh : late;
  const soonest = counted.reduce(
    (least, fate) => Math.min(least, firstOf(fate) || Number.POSITIVE_INFINITY),
    Number.POSITIVE_INFINITY,
  );
  return (soonest - backAtMs) / 1_000;
}

/** The longest time in seconds without an arrival, from the instant to the last event that was sent. */
function longestGap(fates: readonly Fate[], fromMs: number): number {
  const untilMs = fates.reduce((last, { sentMs }) => Math.max(last, sentMs || 0), 0);
  const arrivals = fates
    .flatMap(({ requestsMs }) => requestsMs)
    .filter((atMs) => atMs > fromMs && atMs < untilMs)
    .sort((a, b) => a - b);
  const instants = [fromMs, ...arrivals, Math.max(fromMs, untilMs)];
  return (
    instants.reduce((most, atMs, index) => Math.max(most, atMs - (instants[index - 1] ?? atMs)), 0) / 1e3
  );
}

/** Seconds from the return until everything accepted by then had arrived. */
function drainedAfter(fates: readonly Fate[], backAtMs: number): number {
  const before = fates.filter(({ acceptedMs }) => acceptedMs < backAtMs);
  const lastMs = before.reduce((last, fate) => Math.max(last, firstOf(fate) || 0), backAtMs);
  return (lastMs - backAtMs) / 1_000;
}

/** What every case promises. */
export function promises(accepted: number, lost: number, events: number, settled: Settled): Target[] {
  return [
    atMost("events never accepted", events - accepted, 0),
    atMost("lost", lost, 0),
    atMost("deliveries open at the end", settled.undelivered, 0),
    atMost("workflows open at the end", settled.openWorkflows, 0),
    atMost("gauge of the oldest delivery at the end, s", settled.oldest.end, 0),
  ];
}

/**
 * The connection broke, the request did not arrive in time (RFC 9110 section 15.5.9), or the api was not able to: with its
 * key, a client sends it again.
 */
const MAY_REPEAT: ReadonlySet<string> = new Set(["0", "408", "503"]);

/** Answers to events that tell a client something else than to send it again. */
export function fatalAnswers(answers: Readonly<Record<string, number>>): Target {
  const fatal = Object.entries(answers).filter(([status]) => !MAY_REPEAT.has(status));
  const times = fatal.reduce((sum, [, each]) => sum + each, 0);
  return atMost("answers that a client cannot repeat", times, 0);
}

interface Passed {
  readonly fates: readonly Fate[];
  readonly faults: readonly PassedFault[];
}

/** Requests that may come twice: those in flight, and those that a database put back older forgot. */
function repeatable({ fates, faults }: Passed): number {
  const forgotten = faults.flatMap(({ gone }) => (gone === undefined ? [] : [gone]));
  const inFlight = faults.reduce((sum, fault) => sum + fault.inFlight, 0);
  const after = ({ requestsMs }: Fate): boolean =>
    forgotten.some(([fromMs, toMs]) => requestsMs.some((atMs) => atMs >= fromMs && atMs <= toMs));
  return inFlight + fates.filter(after).length;
}

function seconds(faults: readonly PassedFault[], of: (fault: PassedFault) => number): number[] {
  return faults.map((fault) => round(of(fault), 2));
}

function faultTargets(chaos: FaultCase, { fates, faults }: Passed, late: number): Target[] {
  const { flowSeconds, gapSeconds, drainedSeconds } = chaos;
  const worst = (of: (fault: PassedFault) => number): number => Math.max(0, ...faults.map(of));
  const { duplicated } = countLedger(fates);
  return [
    atMost("acknowledged twice", duplicated, repeatable({ fates, faults }) + late),
    atMost(
      "flows again after s",
      worst(({ takesWorkMs }) => flowsAgain(fates, takesWorkMs)),
      flowSeconds,
    ),
    ...(gapSeconds === undefined
      ? []
      : [
          atMost(
            "longest time without an arrival, s",
            worst(({ struckAtMs }) => longestGap(fates, struckAtMs)),
            gapSeconds,
          ),
        ]),
    ...(drainedSeconds === undefined
      ? []
      : [
          atMost(
            "everything accepted before has arrived after s",
            worst(({ takesWorkMs }) => drainedAfter(fates, takesWorkMs)),
            drainedSeconds,
          ),
        ]),
  ];
}

/** Runs a case on a quiet system; leaves it quiet, unless something is stuck. */
export async function runCase(scene: Scene, chaos: FaultCase, size: Size): Promise<CaseOutcome> {
  const { parts, punctualUrls } = await planTraffic(scene, chaos, size);
  const { apis } = scene.world.signet;
  const balancer = apis.length > 1 ? await startBalancer(apis.map(({ url }) => url)) : undefined;
  const trial = await Trial.begin(scene, size.events);
  try {
    const [published, faults] = await Promise.all([
      trial.publish(parts, balancer?.url),
      breakThings(trial, chaos.faults, parts[0], size),
    ]);
    const repeated = repeatedAnswers(published);
    // What was lost with the database is published again, as docs/operations.md says.
    if (faults.some(({ gone }) => gone !== undefined)) {
      await trial.publish(
        parts.map((part) => ({ ...part, pace: { ...SWIFT } })),
        balancer?.url,
      );
    }
    const settled = await trial.settle();
    const fates = await trial.fates();
    const ledger = countLedger(fates);
    const late = await timedOutAttempts(scene.world, punctualUrls);
    const unrecorded = ledger.requests - (await trial.recorded());
    const passed = { fates, faults };
    return {
      ledger,
      findings: {
        events: size.events,
        sent_again: repeated,
        in_flight: faults.map(({ inFlight }) => inFlight),
        flows_again_s: seconds(faults, ({ takesWorkMs }) => flowsAgain(fates, takesWorkMs)),
        server_took_s: seconds(faults, ({ backAtMs, takesWorkMs }) => (takesWorkMs - backAtMs) / 1_000),
        longest_gap_s: seconds(faults, ({ struckAtMs }) => longestGap(fates, struckAtMs)),
        drained_s: seconds(faults, ({ takesWorkMs }) => drainedAfter(fates, takesWorkMs)),
        unrecorded,
        late_answers: late,
        oldest_unattempted_max_s: round(settled.oldest.max, 2),
        ...Object.assign({}, ...faults.map(({ findings }) => findings ?? {})),
      },
      targets: [
        ...promises(ledger.accepted, ledger.lost, size.events, settled),
        fatalAnswers(repeated),
        ...faultTargets(chaos, passed, late),
        atMost("requests not on record", unrecorded, repeatable(passed)),
        ...(chaos.everyAttemptArrives === true
          ? [atMost("attempts on record that did not arrive", -unrecorded, 0)]
          : []),
      ],
    };
  } finally {
    await trial.end();
    await balancer?.close();
  }
}

/** Publishing again what is known to be lost. */
const SWIFT = { kind: "closed", connections: 16, batch: 1 } as const;
