/** Scheduled maintenance: records the rotation of client secrets and raises alerts. No secret waits for it. */
import { proxyActivities, setCurrentDetails } from "@temporalio/workflow";
import type { RotateActivities, RotateResult } from "#activities/types.ts";

const { rotate } = proxyActivities<RotateActivities>({
  summary: "follows the rotation of client secrets",
  startToCloseTimeout: "15 minutes",
  heartbeatTimeout: "1 minute",
  retry: { initialInterval: "10 seconds", maximumInterval: "1 minute", maximumAttempts: 10 },
});

export async function rotateCredentials(): Promise<RotateResult> {
  const result = await rotate();
  const { due, delivered, retired, overdue } = result;
  setCurrentDetails(
    `Client secrets: ${due} became due, ${delivered} were handed out, ${retired} retired, ${overdue} are overdue.`,
  );
  return result;
}
