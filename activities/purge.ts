/** Activities of the `purgeExpired` workflow. */
import { purgeExpired, type RetentionOptions } from "#webhooks/retention/retention.ts";
import { heartbeating } from "./heartbeating.ts";
import type { PurgeActivities } from "./types.ts";

export function createPurgeActivities(options: RetentionOptions): PurgeActivities {
  return {
    purge: async () => await heartbeating(async () => await purgeExpired(options)),
  };
}
