/** Measures the skew of a machine's clock from the database's, logs it, and checks it for readiness. */
import { CLOCK_SKEW_MAX_MS } from "../database/database-clock.ts";
import type { GuardedClock } from "../domain/clock.ts";
import type { UpkeepJob } from "../runtime/upkeep.ts";
import type { Logger } from "./logger.ts";
import { metrics } from "./metrics.ts";
import type { ReadinessCheck } from "../runtime/readiness.ts";

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

function report(verdict: Verdict, skewMs: number, log: Logger): void {
  const fields = { skew_ms: Math.round(skewMs) };
  switch (verdict) {
    case "right":
      log.info(fields, "the machine's clock agrees with the database's again");
      return;
    case "off":
      log.warn(fields, "the machine's clock differs from the database's: run NTP on both machines");
      return;
    case "wrong":
      log.error(
        fields,
        "the machine's clock is wrong: this process signs and claims nothing until it is right",
      );
  }
}

/** Compares the clocks every 2 seconds and logs a change of the verdict. */
export function clockSkewJob(clock: GuardedClock, log: Logger): UpkeepJob {
  let verdict: Verdict = "right";
  return {
    name: "clock skew",
    everyMs: EVERY_MS,
    run: async () => {
      await clock.measure();
      const { skewMs } = clock;
      metrics.clockSkew.set(skewMs / 1_000);
      const next = verdictOf(skewMs);
      if (next !== verdict) {
        verdict = next;
        report(verdict, skewMs, log);
      }
    },
  };
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
