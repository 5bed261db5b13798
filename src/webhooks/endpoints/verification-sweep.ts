/** Starts verifications that were requested while Temporal was unavailable. */
import type { Logger } from "pino";
import type { Pool } from "#database/pool.ts";
import {
  nextGeneration,
  takeWantedVerifications,
} from "#database/repositories/endpoints/endpoint-verifications.ts";
import type { Clock } from "#domain/clock.ts";
import type { Verification } from "./verification.ts";

/** The API starts a verification immediately. One that still waits after this time was missed. */
const WANTED_AFTER_MS = 10_000;

export interface VerificationSweepOptions {
  readonly pool: Pool;
  readonly verification: Verification;
  /** Maximum number of verifications per round. */
  readonly limit: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Runs one round of the sweep. Returns how many verifications it found. */
export async function sweepVerifications(options: VerificationSweepOptions): Promise<number> {
  const now = options.clock.now();
  const wanted = await takeWantedVerifications(options.pool, {
    before: new Date(now - WANTED_AFTER_MS),
    now: new Date(now),
    limit: options.limit,
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
