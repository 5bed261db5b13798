/**
 * Measures the skew of a machine's clock from the database's, and in a cell that of its database's from the home cell's.
 * Logs it, and checks it for readiness.
 */
import { CLOCK_SKEW_MAX_MS, type CellClock } from "#database/database-clock.ts";
import type { GuardedClock } from "#domain/clock.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import type { Logger } from "./logger.ts";
import { metrics } from "./metrics.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";

const EVERY_MS = 2_000;
/** Skew that is logged, in milliseconds. It does not harm this service, but other programs see the same wrong time. */
export const CLOCK_SKEW_NOTED_MS = 2_000;

type Verdict = "right" | "off" | "wrong";

function verdictOf(skewMs: number): Verdict {
  const distanceMs = Math.abs(skewMs);
  if (distanceMs > CLOCK_SKEW_MAX_MS) {
    return "wrong";
  }
  return distanceMs > CLOCK_SKEW_NOTED_MS ? "off" : "right";
}

type Words = Readonly<Record<Verdict, string>>;

const MACHINE: Words = {
  right: "the machine's clock agrees with the database's again",
  off: "the machine's clock differs from the database's: run NTP on both machines",
  wrong: "the machine's clock is wrong: this process signs and claims nothing until it is right",
};

const CELL: Words = {
  right: "the clock of this cell's database agrees with the home cell's again",
  off: "the clock of this cell's database differs from the home cell's: run NTP on both machines",
  wrong:
    "the clock of this cell's database is wrong, or the home cell's is: this process signs and claims nothing until they agree",
};

const LEVELS = { right: "info", off: "warn", wrong: "error" } as const satisfies Record<Verdict, string>;

interface Comparison {
  readonly name: string;
  /** Compares the clocks, and returns the skew in milliseconds. */
  readonly measure: () => Promise<number>;
  readonly gauge: typeof metrics.clockSkew;
  readonly words: Words;
}

/** Compares clocks every 2 seconds and logs a change of the verdict. */
function comparing({ name, measure, gauge, words }: Comparison, log: Logger): UpkeepJob {
  let verdict: Verdict = "right";
  return {
    name,
    everyMs: EVERY_MS,
    run: async () => {
      const skewMs = await measure();
      gauge.set(skewMs / 1_000);
      const next = verdictOf(skewMs);
      if (next !== verdict) {
        verdict = next;
        log[LEVELS[verdict]]({ skew_ms: Math.round(skewMs) }, words[verdict]);
      }
    },
  };
}

/** Compares the machine's clock with the database's. */
export function clockSkewJob(clock: GuardedClock, log: Logger): UpkeepJob {
  const measure = async (): Promise<number> => {
    await clock.measure();
    return clock.skewMs;
  };
  return comparing({ name: "clock skew", measure, gauge: metrics.clockSkew, words: MACHINE }, log);
}

/** Compares the clock of a cell's database with the home cell's. */
export function homeSkewJob(clock: CellClock, log: Logger): UpkeepJob {
  const measure = async (): Promise<number> => {
    await clock.home.measure();
    return clock.homeSkewMs;
  };
  return comparing({ name: "home clock skew", measure, gauge: metrics.homeClockSkew, words: CELL }, log);
}

/** Suspends a job while the clock is wrong, because it would claim, end or remove what is not due. */
export function whileRight(clock: GuardedClock, job: UpkeepJob): UpkeepJob {
  return {
    ...job,
    run: async () => (clock.isRight ? await job.run() : undefined),
  };
}

/** Reports a process with a wrong clock as not ready, so that others replace it. */
export function clockReadiness(clock: GuardedClock): ReadinessCheck {
  return { name: "clock", check: async () => clock.requireRight() };
}
