import { type SignetError, tooManyRequests } from "#domain/errors.ts";
import { metrics } from "#observability/metrics.ts";

/** The limits, as labels of the metric. */
export type Limit =
  | "token_address"
  | "token_client"
  | "token_failures"
  | "api"
  | "publish"
  | "operator_failures"
  | "signature_failures"
  | "edge_share"
  | "lookups"
  | "public";

/**
 * Returns a 429 with Retry-After and counts it in the metric.
 *
 * @param waitMs wait, in milliseconds
 */
export function rateLimited(limit: Limit, waitMs: number, detail: string): SignetError {
  metrics.rateLimited.inc({ limit });
  return tooManyRequests(waitMs, detail);
}
