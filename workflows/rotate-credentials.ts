/** Upkeep by schedule: writes down how client secrets have moved on, and raises alerts. No secret waits for it. */
import { proxyActivities } from "@temporalio/workflow";
import type { RotateActivities, RotateResult } from "../activities/types.ts";

const { rotate } = proxyActivities<RotateActivities>({
  startToCloseTimeout: "15 minutes",
  heartbeatTimeout: "1 minute",
  retry: { initialInterval: "10 seconds", maximumInterval: "1 minute", maximumAttempts: 10 },
});

export async function rotateCredentials(): Promise<RotateResult> {
  return await rotate();
}
