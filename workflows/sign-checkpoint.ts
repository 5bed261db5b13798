/** Upkeep by schedule, and after each revocation: signs the compliance log as it stands (security decisions E). */
import { proxyActivities } from "@temporalio/workflow";
import type { CheckpointActivities, SignCheckpointResult } from "../activities/types.ts";

const { sign } = proxyActivities<CheckpointActivities>({
  startToCloseTimeout: "30 minutes",
  heartbeatTimeout: "1 minute",
  retry: { initialInterval: "1 second", maximumInterval: "10 seconds", maximumAttempts: 5 },
});

export async function signCheckpoint(): Promise<SignCheckpointResult> {
  return await sign();
}
