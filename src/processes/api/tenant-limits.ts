/** Wires tenants' limits for the api process. */
import type { Config } from "#config/config.ts";
import type { Pool } from "#database/pool.ts";
import { findTenantPolicies } from "#database/repositories/tenant-policies.ts";
import type { Clock } from "#domain/clock.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import { TenantLimits } from "#http/rate-limits/tenant-limits.ts";
import { TenantPolicies } from "#http/rate-limits/tenant-policies.ts";

/** @param pool role signet_issuer */
export function openTenantLimits(config: Config, pool: Pool, clock: Clock): TenantLimits {
  const policies = new TenantPolicies({
    timers: machineTimers,
    find: async (tenantIds) => await findTenantPolicies(pool, tenantIds),
    defaults: config,
    clock,
  });
  return new TenantLimits({ policies, monotonic: machineTimers.monotonic });
}
