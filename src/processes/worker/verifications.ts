/** Jobs of a worker process that keep verifications going. */
import type { Client } from "@temporalio/client";
import type { Pool } from "#database/pool.ts";
import type { Clock } from "#domain/clock.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { LostVerifications } from "#webhooks/endpoints/lost-verifications.ts";
import { createPacedVerification, createVerification } from "#webhooks/endpoints/verification.ts";
import { sweepVerifications } from "#webhooks/endpoints/verification-sweep.ts";
import type { WorkerProcessOptions } from "./options.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const SWEEP_MS = 1_000;
const SWEEP_IDLE_MS = 5_000;
/** Length of a round of the sweep at the rate of verifications, in seconds. The end of the worker waits for it. */
const ROUND_SECONDS = 2;
const LOST_MS = 15_000;
const LOST_MAX = 1_000;

export interface VerificationJobsServices {
  readonly pool: Pool;
  readonly client: Client;
  readonly clock: Clock;
  readonly options: WorkerProcessOptions;
}

export function verificationJobs({
  pool,
  client,
  clock,
  options: { config, log },
}: VerificationJobsServices): readonly UpkeepJob[] {
  const perSecond = config.verificationsPerSecond;
  const verification = createPacedVerification(
    createVerification(client, Math.random),
    perSecond,
    machineTimers,
  );
  const limit = ROUND_SECONDS * perSecond;
  const lost = new LostVerifications({ pool, client, limit: LOST_MAX, clock, log });
  return [
    {
      name: "verification sweep",
      everyMs: SWEEP_MS,
      idleMs: SWEEP_IDLE_MS,
      run: async () => await sweepVerifications({ pool, verification, limit, clock, log }),
    },
    { name: "lost verifications", everyMs: LOST_MS, run: async () => await lost.restart() },
  ];
}
