import { SignetError } from "../../domain/errors.ts";
import { metrics } from "../../observability/metrics.ts";

/** Which limit it was, as the metric calls it. */
export type Limit =
  | "token_address"
  | "token_client"
  | "token_failures"
  | "api"
  | "publish"
  | "operator_failures"
  | "codec"
  | "signature_failures"
  | "edge_share"
  | "lookups"
  | "public";

/** 429 that says when to come back (RFC 6585 section 4); counted. */
export function rateLimited(limit: Limit, waitMs: number, detail: string): SignetError {
  metrics.rateLimited.inc({ limit });
  return new SignetError("RATE_LIMITED", {
    detail,
    headers: { "retry-after": String(Math.max(1, Math.ceil(waitMs / 1_000))) },
  });
}
