/** Upkeep by schedule: removes what is over (architecture 4). */
import { proxyActivities } from "@temporalio/workflow";
import type { PurgeActivities, PurgeResult } from "../activities/types.ts";

const { purge } = proxyActivities<PurgeActivities>({
  startToCloseTimeout: "15 minutes",
  heartbeatTimeout: "1 minute",
  retry: { initialInterval: "10 seconds", maximumInterval: "5 minutes", maximumAttempts: 10 },
});

export async function purgeExpired(): Promise<PurgeResult> {
  return await purge();
}
