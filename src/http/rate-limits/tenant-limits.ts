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

export interface TenantLimitsOptions {
  readonly policies: TenantPolicies;
  /** Monotonic clock, in milliseconds. */
  readonly monotonic: () => number;
}

/** The limits of one process. */
export class TenantLimits {
  readonly #options: TenantLimitsOptions;
  readonly #buckets = { api: new TokenBuckets(), publish: new TokenBuckets() };

  constructor(options: TenantLimitsOptions) {
    this.#options = options;
  }

  /** Returns the tenant's policy; a promise only if it must be read from the database. */
  policyOf(tenantId: string): TenantPolicy | Promise<TenantPolicy> {
    const { policies } = this.#options;
    return policies.known(tenantId) ?? policies.read(tenantId);
  }

  /** Drops the tenant's cached policy after a change. */
  forget(tenantId: string): void {
    this.#options.policies.forget(tenantId);
  }

  /** Counts a request and reports the remaining quota in the response. @throws SignetError RATE_LIMITED */
  admit(tenantId: string, { limits }: TenantPolicy, rate: TenantRate, answer: Answer): void {
    const perSecond = limits[RATES[rate]];
    if (perSecond === 0) {
      return;
    }
    const buckets = this.#buckets[rate];
    const waitMs = buckets.take(tenantId, perSecond, this.#options.monotonic());
    const seconds = Math.max(1, Math.ceil(waitMs / 1_000));
    answer.header("ratelimit-policy", `"${rate}";q=${perSecond};w=1`);
    answer.header("ratelimit", `"${rate}";r=${buckets.left(tenantId)};t=${seconds}`);
    if (waitMs > 0) {
      throw rateLimited(rate, waitMs, "The tenant has exceeded its rate limit.");
    }
  }

  /** Charges the events of a batch beyond the first, which may delay the next request. */
  chargeEvents(tenantId: string, count: number): void {
    this.#buckets.publish.charge(tenantId, count);
  }
}
