/**
 * In-memory cache of tenants' policies. A change is published in the sequence of revocations, and removes the cached
 * policy before the change's response is sent.
 */
import { type Batcher, createBatcher } from "#database/batcher.ts";
import type { TenantPolicyRow } from "#database/repositories/tenant-policies.ts";
import { putBounded } from "#domain/bounded-map.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import { effectiveLimits, type LimitDefaults, type TenantLimitValues } from "#config/tenant-limits.ts";

/** Maximum age of a cached policy, in milliseconds. */
export const POLICY_LIFE_MS = 5_000;
const TENANTS_MAX = 10_000;
const LOOKUP_BATCH = { maxItems: 64, maxInFlight: 2 };

export interface TenantPolicy {
  readonly limits: TenantLimitValues;
  /** Undefined for an unknown tenant. */
  readonly region: string | undefined;
  /** Credentials whose events must be signed. */
  readonly signing: ReadonlySet<string>;
}

export interface TenantPoliciesOptions {
  readonly find: (tenantIds: readonly string[]) => Promise<readonly TenantPolicyRow[]>;
  readonly defaults: LimitDefaults;
  readonly clock: Clock;
  readonly timers: Timers;
}

interface Kept {
  readonly policy: TenantPolicy;
  readonly until: number;
}

/** The cache of one process. */
export class TenantPolicies {
  readonly #options: TenantPoliciesOptions;
  readonly #kept = new Map<string, Kept>();
  readonly #lookup: Batcher<string, TenantPolicy>;
  /** Number of dropped policies, to detect reads that began before a drop and may be outdated. */
  #forgotten = 0;

  constructor(options: TenantPoliciesOptions) {
    this.#options = options;
    const flush = async (tenantIds: readonly string[]): Promise<TenantPolicy[]> =>
      await this.#find(tenantIds);
    this.#lookup = createBatcher({ ...LOOKUP_BATCH, timers: options.timers, flush });
  }

  /** Returns the policy if it was read at most 5 s ago, for the hot path. */
  known(tenantId: string): TenantPolicy | undefined {
    const found = this.#kept.get(tenantId);
    return found !== undefined && this.#options.clock.now() < found.until ? found.policy : undefined;
  }

  /**
   * Reads the policy. Returns the defaults for an unknown tenant. If the database is unavailable, returns the last
   * known policy, or rejects if there is none.
   */
  async read(tenantId: string): Promise<TenantPolicy> {
    try {
      return await this.#lookup.add(tenantId);
    } catch (error) {
      // The database is unavailable. Requests are still admitted for a limited time, under the last known policy.
      const found = this.#kept.get(tenantId);
      if (found === undefined) {
        throw error;
      }
      return found.policy;
    }
  }

  /** Drops the policy after a change, and discards the results of reads in progress. */
  forget(tenantId: string): void {
    this.#forgotten += 1;
    this.#kept.delete(tenantId);
  }

  async #find(tenantIds: readonly string[]): Promise<TenantPolicy[]> {
    const { find, defaults, clock } = this.#options;
    const until = clock.now() + POLICY_LIFE_MS;
    const forgottenBefore = this.#forgotten;
    const rows = new Map((await find([...new Set(tenantIds)])).map((row) => [row.id, row]));
    return tenantIds.map((tenantId) => {
      const row = rows.get(tenantId);
      const policy = {
        limits: effectiveLimits(defaults, row?.limits),
        region: row?.region,
        signing: new Set(row?.signing),
      };
      // A cell learns of a new tenant within a second, so what is unknown is read again.
      if (row !== undefined && this.#forgotten === forgottenBefore) {
        putBounded(this.#kept, tenantId, { policy, until }, TENANTS_MAX);
      }
      return policy;
    });
  }
}
