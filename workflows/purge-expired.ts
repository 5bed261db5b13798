/** Scheduled maintenance: removes expired data. */
import { proxyActivities, setCurrentDetails } from "@temporalio/workflow";
import type { PurgeActivities, PurgeResult } from "#activities/types.ts";

const { purge } = proxyActivities<PurgeActivities>({
  summary: "removes what is over",
  startToCloseTimeout: "15 minutes",
  heartbeatTimeout: "1 minute",
  retry: { initialInterval: "10 seconds", maximumInterval: "5 minutes", maximumAttempts: 10 },
});

/** Bounds the history. The schedule starts the next run. */
const RUNS_MAX = 100;

/** Histories of earlier releases have one activity, whose result never says that more is left. */
export async function purgeExpired(): Promise<PurgeResult> {
  let result = await purge();
  for (let runs = 1; result.more === true && runs < RUNS_MAX; runs += 1) {
    const next = await purge();
    result = {
      days: result.days + next.days,
      keys: result.keys + next.keys,
      rows: result.rows + next.rows,
      revocations: result.revocations + next.revocations,
      more: next.more ?? false,
    };
  }
  const { days, keys, rows, revocations } = result;
  setCurrentDetails(
    `Removed: ${days} days of partitions, ${rows} finished deliveries, ${keys} tables of idempotency keys, ${revocations} revocations of tokens.`,
  );
  return result;
}
