/** The last 24 hours of a tenant's deliveries in numbers, read at most every 30 seconds for each tenant. */
import type { HourOfDeliveries } from "../database/repositories/delivery-hours.ts";
import type { Clock } from "../domain/clock.ts";

const HOUR_MS = 3_600_000;
const HOURS = 24;
const KEPT_MS = 30_000;
const TENANTS_MAX = 1_000;

export interface DeliveryStatsOptions {
  readonly clock: Clock;
  readonly read: (tenantId: string, hours: readonly Date[]) => Promise<readonly HourOfDeliveries[]>;
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

  /** The hours, oldest first; the last one is not over. */
  async of(tenantId: string): Promise<readonly HourOfDeliveries[]> {
    const now = this.#options.clock.now();
    const kept = this.#kept.get(tenantId);
    if (kept !== undefined && Math.abs(now - kept.atMs) < KEPT_MS) {
      return await kept.hours;
    }
    const last = Math.floor(now / HOUR_MS) * HOUR_MS;
    const starts = Array.from(
      { length: HOURS },
      (_, index) => new Date(last - (HOURS - 1 - index) * HOUR_MS),
    );
    const hours = this.#options.read(tenantId, starts);
    // The oldest goes: who asks again is read again.
    this.#kept.delete(tenantId);
    const [oldest] = this.#kept.size >= TENANTS_MAX ? this.#kept.keys() : [];
    this.#kept.delete(oldest ?? "");
    this.#kept.set(tenantId, { atMs: now, hours });
    try {
      return await hours;
    } catch (error) {
      this.#kept.delete(tenantId);
      throw error;
    }
  }
}
