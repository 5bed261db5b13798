/** Reads of ingest that each concern one tenant, and leave connections to commits. */
import { createFairBatcher } from "./fair-batcher.ts";
import type { Timers } from "#domain/clock.ts";
import type { Pool } from "#database/pool.ts";
import type { TenantAndType } from "#database/repositories/webhooks/matches.ts";

/** There are two kinds of such reads. With a third of the connections each, the last third is left to commits. */
const SHARE = 1 / 3;
/** Fewer would let one tenant's slow read delay those of all others. */
const AT_ONCE_MIN = 2;

/**
 * Returns a function that reads for tenants in turns, with a part of the pool's connections. None of the tenants ever
 * has them all.
 */
export function createTenantReads<Asked extends Pick<TenantAndType, "tenantId">, Found>(
  pool: Pool,
  timers: Timers,
  read: (asked: Asked) => Promise<Found>,
): (asked: Asked) => Promise<Found> {
  const reads = createFairBatcher<Asked, Found>({
    timers,
    maxItems: 1,
    maxInFlight: Math.max(AT_ONCE_MIN, Math.floor((pool.options.max ?? 0) * SHARE)),
    // Each caller is an event that waits, and those are limited.
    maxWaiting: Infinity,
    owner: {
      of: ({ tenantId }) => tenantId,
      many: 1,
      manyPerFlush: 1,
      refusal: () => new Error("reads are not refused"),
    },
    flush: async (items) => await Promise.all(items.map(read)),
  });
  return async (asked) => await reads.add(asked);
}
