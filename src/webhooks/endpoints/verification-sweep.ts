/** Starts verifications that were requested while Temporal was unavailable. */
import type { Logger } from "pino";
import type { Pool } from "#database/pool.ts";
import {
  nextGeneration,
  takeWantedVerifications,
} from "#database/repositories/endpoints/endpoint-verifications.ts";
import type { Clock } from "#domain/clock.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import type { Verification } from "./verification.ts";

const SWEEP_MS = 1_000;
const SWEEP_IDLE_MS = 5_000;
/** Length of a round of the sweep at the rate of verifications, in seconds. The end of the worker waits for it. */
const ROUND_SECONDS = 2;
/** The API starts a verification immediately. One that still waits after this time was missed. */
const WANTED_AFTER_MS = 10_000;

export interface VerificationSweepOptions {
  readonly pool: Pool;
  readonly verification: Verification;
  /** Rate of started verifications. */
  readonly perSecond: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Runs one round of the sweep. Returns how many verifications it found. */
async function sweepVerifications(options: VerificationSweepOptions): Promise<number> {
  const now = options.clock.now();
  const wanted = await takeWantedVerifications(options.pool, {
    before: new Date(now - WANTED_AFTER_MS),
    now: new Date(now),
    limit: ROUND_SECONDS * options.perSecond,
  });
  for (const endpoint of wanted) {
    try {
      await options.verification.kick(
        endpoint,
        async () => await nextGeneration(options.pool, endpoint.id, endpoint.generation),
      );
    } catch (error) {
      options.log.warn(
        { err: error, tenant_id: endpoint.tenant_id, endpoint_id: endpoint.id },
        "verification could not be started",
      );
      break;
    }
  }
  return wanted.length;
}

/** Returns the job that sweeps. */
export function verificationSweepJob(options: VerificationSweepOptions): UpkeepJob {
  return {
    name: "verification sweep",
    everyMs: SWEEP_MS,
    idleMs: SWEEP_IDLE_MS,
    run: async () => await sweepVerifications(options),
  };
}
