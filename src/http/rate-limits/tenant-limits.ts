/**
 * What a tenant may ask of the API: one rate for publishing, another for everything else. The rates are the tenant's own
 * where operators have set some, else the settings'. Answers say how much is left (draft-ietf-httpapi-ratelimit-headers).
 */
import { rateLimited } from "./rate-limited.ts";
import type { TenantPolicies, TenantPolicy } from "./tenant-policies.ts";
import { TokenBuckets } from "./token-buckets.ts";

/** `publish` is what arrives as fast as things happen, counted by events; `api` is everything else. */
export type TenantRate = "api" | "publish";

const RATES = { api: "api_requests_per_second", publish: "published_events_per_second" } as const;

/** Where the headers go. */
interface Answer {
  header(name: string, value: string): unknown;
}

export interface TenantLimits {
  /** The tenant's policy; a promise only where it has to be read. */
  policyOf(tenantId: string): TenantPolicy | Promise<TenantPolicy>;
  /** The tenant's policy has changed: the one that is known here holds no longer. */
  readonly forget: (tenantId: string) => void;
  /** Counts a request, and says in the answer what is left. @throws SignetError RATE_LIMITED */
  admit(tenantId: string, policy: TenantPolicy, rate: TenantRate, answer: Answer): void;
  /** Counts the events of a batch beyond the first: whoever comes next waits for them. */
  chargeEvents(tenantId: string, count: number): void;
}

export interface TenantLimitsOptions {
  readonly policies: TenantPolicies;
  /** Milliseconds of a clock that nobody sets. */
  readonly monotonic: () => number;
}

/** Limits of one process. */
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
        throw rateLimited(rate, waitMs, "The tenant asks for more than its rate allows.");
      }
    },
    chargeEvents: (tenantId, count) => buckets.publish.charge(tenantId, count),
  };
}
