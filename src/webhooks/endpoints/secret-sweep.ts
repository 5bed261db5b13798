/** Erases expired secrets and stores state changes that are due. Nothing waits for it. */
import type { Queryable } from "#database/pool.ts";
import { findDueMoves } from "#database/repositories/endpoints/endpoint-secrets.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { eachDue, type RoundOptions } from "./each-due.ts";
import { type EndpointKey, type EndpointSecretServices, settleSecrets } from "./endpoint-secrets.ts";
import { rotateOnSchedule, type ScheduledRotationOptions } from "./scheduled-rotation.ts";

const EVERY_MS = 60_000;

export type SecretSweepOptions = EndpointSecretServices & RoundOptions;

/** Runs one round; safe to run concurrently. Resolves to the number of endpoints with changes. */
export async function sweepSecrets(options: SecretSweepOptions): Promise<number> {
  const step = async (db: Queryable, place: EndpointKey) => await settleSecrets(db, place, options);
  return await eachDue(
    findDueMoves,
    { step, failure: "an endpoint's secrets could not be updated" },
    options,
  );
}

/** Returns the job that keeps the secrets of endpoints: it sweeps, then begins scheduled rotations. */
export function endpointSecretsJob(options: ScheduledRotationOptions): UpkeepJob {
  return {
    name: "endpoint secrets",
    everyMs: EVERY_MS,
    run: async () => {
      await sweepSecrets(options);
      await rotateOnSchedule(options);
    },
  };
}
