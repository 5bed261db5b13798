/** Runs one case: publishes, injects faults, waits until the system is quiet, evaluates the bounds. */
import { round } from "../bench/report/measurement.ts";
import type { Fault, PassedFault } from "./faults.ts";
import { countLedger, type Fate } from "./ledger.ts";
import { timedOutAttempts } from "./observe.ts";
import type { TargetResult } from "../bench/report/targets.ts";
import { atMost, type CaseOutcome } from "./result.ts";
import { startBalancer } from "./scenarios/balancer.ts";
import { type Part, planTraffic, repeatedAnswers, type Size, type TrafficShape } from "./traffic.ts";
import { type Scene, type Settled, Trial } from "./trial.ts";

/** A case with faults in the middle of its events. */
export interface FaultCase extends TrafficShape {
  readonly faults: readonly Fault[];
  /** Deliveries flow again within this many seconds of recovery. */
  readonly flowSeconds: number;
  /** Longest allowed time without an arrival from the fault on, if other processes keep running. */
  readonly gapSeconds?: number;
  /** Events accepted before recovery have arrived within this many seconds of it. */
  readonly drainedSeconds?: number;
  /** Every attempt on record must have arrived, because all receivers are reachable. */
  readonly everyAttemptArrives?: true;
}

/** Injects the faults, spread over the arrivals of the first part. */
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
 * Returns the seconds from the instant to the next arrival of an event accepted after it, or of any event if none was.
 * Returns 0 if everything had arrived by then.
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

/** Returns the longest time without an arrival, in seconds, from the instant to the last event sent. */
export function longestGap(fates: readonly Fate[], fromMs: number): number {
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

/** Returns the seconds from recovery until everything accepted by then had arrived. */
function drainedAfter(fates: readonly Fate[], backAtMs: number): number {
  const before = fates.filter(({ acceptedMs }) => acceptedMs < backAtMs);
  const lastMs = before.reduce((last, fate) => Math.max(last, firstOf(fate) || 0), backAtMs);
  return (lastMs - backAtMs) / 1_000;
}

/** The bounds of every case. */
export function promises(accepted: number, lost: number, events: number, settled: Settled): TargetResult[] {
  return [
    atMost("events never accepted", events - accepted, 0),
    atMost("lost", lost, 0),
    atMost("deliveries open at the end", settled.undelivered, 0),
    atMost("workflows open at the end", settled.openWorkflows, 0),
    atMost("counts that disagree with the rows", settled.miscounted, 0),
    atMost("gauge of the oldest delivery at the end, s", settled.oldest.end, 0),
  ];
}

/**
 * The connection broke (0), the request did not arrive in time (408, RFC 9110 section 15.5.9), or the api was
 * unavailable (503). A client retries these with its key.
 */
const MAY_REPEAT: ReadonlySet<string> = new Set(["0", "408", "503"]);

/** Counts responses that do not allow a client to retry. */
export function fatalAnswers(answers: Readonly<Record<string, number>>): TargetResult {
  const fatal = Object.entries(answers).filter(([status]) => !MAY_REPEAT.has(status));
  const times = fatal.reduce((sum, [, each]) => sum + each, 0);
  return atMost("answers that a client cannot repeat", times, 0);
}

export interface Passed {
  readonly fates: readonly Fate[];
  readonly faults: readonly PassedFault[];
}

/** Returns the number of requests that may arrive twice: those in flight, and those that a restore forgot. */
export function repeatable({ fates, faults }: Passed): number {
  const forgotten = faults.flatMap(({ gone }) => (gone === undefined ? [] : [gone]));
  const inFlight = faults.reduce((sum, fault) => sum + fault.inFlight, 0);
  const after = ({ requestsMs }: Fate): boolean =>
    forgotten.some(([fromMs, toMs]) => requestsMs.some((atMs) => atMs >= fromMs && atMs <= toMs));
  return inFlight + fates.filter(after).length;
}

function seconds(faults: readonly PassedFault[], of: (fault: PassedFault) => number): number[] {
  return faults.map((fault) => round(of(fault), 2));
}

function faultTargets(chaos: FaultCase, { fates, faults }: Passed, late: number): TargetResult[] {
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

/** Runs a case on a quiet system. Leaves the system quiet unless something is stuck. */
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
    // Publish again what was lost with the database, as docs/operations.md says.
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

/** Pace for publishing lost events again. */
const SWIFT = { kind: "closed", connections: 16, batch: 1 } as const;
