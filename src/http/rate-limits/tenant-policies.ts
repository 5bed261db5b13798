/**
 * Tenants' policies in the memory of a process. A change is published in the sequence of revocations, and forgets the
 * policy here before it is answered.
 */
import { createBatcher } from "../../database/batcher.ts";
import type { TenantPolicyRow } from "../../database/repositories/tenant-policies.ts";
import { putBounded } from "../../domain/bounded-map.ts";
import type { Clock } from "../../domain/clock.ts";
import { effectiveLimits, type LimitDefaults, type TenantLimitValues } from "../../config/tenant-limits.ts";

/** How long a policy is gone by before it is read again, whatever this process hears. */
export const POLICY_LIFE_MS = 5_000;
const TENANTS_MAX = 10_000;
const LOOKUP_BATCH = { maxItems: 64, maxInFlight: 2 };

export interface TenantPolicy {
  readonly limits: TenantLimitValues;
  /** Credentials that publish with their signature only. */
  readonly signing: ReadonlySet<string>;
}

export interface TenantPolicies {
  /** The policy as it was read at most 5 s ago: the hot path. */
  known(tenantId: string): TenantPolicy | undefined;
  /**
   * The policy as it is. Of a tenant that is not there: what the settings say. While it cannot be read: as it was; of a
   * tenant that is not known yet it rejects.
   */
  read(tenantId: string): Promise<TenantPolicy>;
  /** The policy has changed: it is read before the next request, and no read that began before is kept. */
  forget(tenantId: string): void;
}

export interface TenantPoliciesOptions {
  readonly find: (tenantIds: readonly string[]) => Promise<readonly TenantPolicyRow[]>;
  readonly defaults: LimitDefaults;
  readonly clock: Clock;
}

interface Kept {
  readonly policy: TenantPolicy;
  readonly until: number;
}

/** Makes the memory of one process. */
export function createTenantPolicies({ find, defaults, clock }: TenantPoliciesOptions): TenantPolicies {
  const kept = new Map<string, Kept>();
  /** How many policies were forgotten: what was being read meanwhile may be the policy of before. */
  let forgotten = 0;
  const lookup = createBatcher<string, TenantPolicy>({
    ...LOOKUP_BATCH,
    flush: async (tenantIds) => {
      const until = clock.now() + POLICY_LIFE_MS;
      const forgottenBefore = forgotten;
      const rows = new Map((await find([...new Set(tenantIds)])).map((row) => [row.id, row]));
      return tenantIds.map((tenantId) => {
        const row = rows.get(tenantId);
        const policy = {
          limits: effectiveLimits(defaults, row?.limits),
          signing: new Set(row?.signing),
        };
        if (forgotten === forgottenBefore) {
          putBounded(kept, tenantId, { policy, until }, TENANTS_MAX);
        }
        return policy;
      });
    },
  });
  return {
    known: (tenantId) => {
      const found = kept.get(tenantId);
      return found !== undefined && clock.now() < found.until ? found.policy : undefined;
    },
    read: async (tenantId) => {
      try {
        return await lookup.add(tenantId);
      } catch (error) {
        // The database is away: what a bounded knowledge of revocations admits goes by the policy of before.
        const found = kept.get(tenantId);
        if (found === undefined) {
          throw error;
        }
        return found.policy;
      }
    },
    forget: (tenantId) => {
      forgotten += 1;
      kept.delete(tenantId);
    },
  };
}
