/**
 * Rate limits of tenants: one for publishing, another for everything else. Limits that operators set for a tenant
 * override the settings. Responses report the remaining quota (draft-ietf-httpapi-ratelimit-headers).
 */
import { TokenBuckets } from "#domain/token-buckets.ts";
import { rateLimited } from "./rate-limited.ts";
import type { TenantPolicies, TenantPolicy } from "./tenant-policies.ts";

/** `publish` counts published events; `api` counts all other requests. */
export type TenantRate = "api" | "publish";

const RATES = { api: "api_requests_per_second", publish: "published_events_per_second" } as const;

/** The part of a reply that sets headers. */
interface Answer {
  header(name: string, value: string): unknown;
}

export interface TenantLimits {
  /** Returns the tenant's policy; a promise only if it must be read from the database. */
  policyOf(tenantId: string): TenantPolicy | Promise<TenantPolicy>;
  /** Drops the tenant's cached policy after a change. */
  readonly forget: (tenantId: string) => void;
  /** Counts a request and reports the remaining quota in the response. @throws SignetError RATE_LIMITED */
  admit(tenantId: string, policy: TenantPolicy, rate: TenantRate, answer: Answer): void;
  /** Charges the events of a batch beyond the first, which may delay the next request. */
  chargeEvents(tenantId: string, count: number): void;
}

export interface TenantLimitsOptions {
  readonly policies: TenantPolicies;
  /** Monotonic clock, in milliseconds. */
  readonly monotonic: () => number;
}

/** Creates the limits of one process. */
export function createTenantLimits({ policies, monotonic }: TenantLimitsOptions): TenantLimits {
  const buckets = { api: new TokenBuckets(), publish: new TokenBuckets() };
  return {
    policyOf: (tenantId) => policies.known(tenantId) ?? policies.read(tenantId),
    forget: (tenantId) => policies.forget(tenantId),
    admit: (tenantId, { limits }, rate, answer) => {
      const perSecond = limits[RATES[rate]];
      if (perSecond === 0) {
        return;
      }
      const waitMs = buckets[rate].take(tenantId, perSecond, monotonic());
      const seconds = Math.max(1, Math.ceil(waitMs / 1_000));
      answer.header("ratelimit-policy", `"${rate}";q=${perSecond};w=1`);
      answer.header("ratelimit", `"${rate}";r=${buckets[rate].left(tenantId)};t=${seconds}`);
      if (waitMs > 0) {
        throw rateLimited(rate, waitMs, "The tenant has exceeded its rate limit.");
      }
    },
    chargeEvents: (tenantId, count) => buckets.publish.charge(tenantId, count),
  };
}
