/** What a tenant may ask of the API: one rate for publishing, another for everything else. */
import type { Config } from "../config.ts";
import { createRateLimiter } from "./rate-limiter.ts";
import { rateLimited } from "./rate-limited.ts";

/** `publish` is what arrives as fast as things happen; `api` is everything else. */
export type TenantRate = "api" | "publish";

export interface TenantLimits {
  /** Counts a request. @throws SignetError RATE_LIMITED */
  admit(tenantId: string, rate: TenantRate): Promise<void>;
}

/** Limits of one process. */
export function createTenantLimits(
  config: Pick<Config, "apiRatePerTenant" | "publishRatePerTenant">,
): TenantLimits {
  const limiters = {
    api: createRateLimiter({ count: config.apiRatePerTenant, perSeconds: 1 }),
    publish: createRateLimiter({ count: config.publishRatePerTenant, perSeconds: 1 }),
  };
  return {
    admit: async (tenantId, rate) => {
      const waitMs = await limiters[rate].take(tenantId);
      if (waitMs > 0) {
        throw rateLimited(rate, waitMs, "The tenant asks for more than its rate allows.");
      }
    },
  };
}
