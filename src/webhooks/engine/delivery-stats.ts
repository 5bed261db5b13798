/** Delivery counts of the last 24 hours for a tenant or an endpoint, read at most every 30 seconds for each. */
import type { CountedDeliveries } from "#database/repositories/webhooks/delivery-counts.ts";
import type { HourOfDeliveries } from "#database/repositories/webhooks/delivery-hours.ts";
import { putBounded } from "#domain/bounded-map.ts";
import type { Clock } from "#domain/clock.ts";
import { HOUR_MS, hourStart } from "#domain/ids.ts";

const HOURS = 24;
const KEPT_MS = 30_000;
const KEPT_MAX = 1_000;

export interface DeliveryStatsOptions {
  readonly clock: Clock;
  readonly read: (of: CountedDeliveries, hours: readonly Date[]) => Promise<readonly HourOfDeliveries[]>;
}

export class DeliveryStats {
  readonly #options: DeliveryStatsOptions;
  readonly #kept = new Map<
    string,
    { readonly atMs: number; readonly hours: Promise<readonly HourOfDeliveries[]> }
  >();

  constructor(options: DeliveryStatsOptions) {
    this.#options = options;
  }

  /** Returns the hours, oldest first. The last hour is incomplete. */
  async of(counted: CountedDeliveries): Promise<readonly HourOfDeliveries[]> {
    const key = `${counted.tenantId}/${counted.endpointId ?? ""}`;
    const now = this.#options.clock.now();
    const kept = this.#kept.get(key);
    if (kept !== undefined && Math.abs(now - kept.atMs) < KEPT_MS) {
      return await kept.hours;
    }
    const last = hourStart(now);
    const starts = Array.from(
      { length: HOURS },
      (_, index) => new Date(last - (HOURS - 1 - index) * HOUR_MS),
    );
    const hours = this.#options.read(counted, starts);
    putBounded(this.#kept, key, { atMs: now, hours }, KEPT_MAX);
    // An empty result was cheap to read, and a new user expects to see the first delivery at once.
    const worthKeeping = await hours.then(
      (found) => found.some(({ total }) => total > 0),
      () => false,
    );
    if (!worthKeeping) {
      this.#kept.delete(key);
    }
    return await hours;
  }
}
