import type { Environment } from "#config/config.ts";

/** Lifts the limits, because tests and benchmarks send more requests than one client would. */
export const NO_LIMITS: Environment = {
  SIGNET_TOKEN_RATE_PER_CLIENT: "0",
  SIGNET_TOKEN_RATE_PER_ADDRESS: "0",
  SIGNET_PUBLIC_RATE_PER_ADDRESS: "0",
  SIGNET_TOKEN_FAILURES: "0",
  SIGNET_API_RATE_PER_TENANT: "0",
  SIGNET_PUBLISH_RATE_PER_TENANT: "0",
};
