/** Scheduled maintenance, and after each revocation: signs the current compliance log (security decisions E). */
import { proxyActivities, setCurrentDetails } from "@temporalio/workflow";
import type { CheckpointActivities, SignCheckpointResult } from "#activities/types.ts";

const { sign } = proxyActivities<CheckpointActivities>({
  summary: "signs the compliance log as it stands",
  startToCloseTimeout: "30 minutes",
  heartbeatTimeout: "1 minute",
  retry: { initialInterval: "1 second", maximumInterval: "10 seconds", maximumAttempts: 5 },
});

export async function signCheckpoint(): Promise<SignCheckpointResult> {
  const result = await sign();
  setCurrentDetails(
    `Checkpoint ${result.seq} covers ${result.size} entries${result.signed ? "" : "; nothing was added since"}.`,
  );
  return result;
}
