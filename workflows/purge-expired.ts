/** Scheduled maintenance: removes expired data (architecture 4). */
import { proxyActivities, setCurrentDetails } from "@temporalio/workflow";
import type { PurgeActivities, PurgeResult } from "../activities/types.ts";

const { purge } = proxyActivities<PurgeActivities>({
  summary: "removes what is over",
  startToCloseTimeout: "15 minutes",
  heartbeatTimeout: "1 minute",
  retry: { initialInterval: "10 seconds", maximumInterval: "5 minutes", maximumAttempts: 10 },
});

export async function purgeExpired(): Promise<PurgeResult> {
  const result = await purge();
  const { days, keys, rows, revocations } = result;
  setCurrentDetails(
    `Removed: ${days} days of partitions, ${rows} finished deliveries, ${keys} tables of idempotency keys, ${revocations} revocations of tokens.`,
  );
  return result;
}
