/** Retry rules. */
import { SignetApiError, SignetTransportError } from "./errors.ts";
import type { Runtime } from "./runtime.ts";

export interface RetryPolicy {
  /** Maximum number of requests, including the first; 1 never retries. */
  readonly attempts: number;
  /** Maximum pause before the second request, in milliseconds; doubles from there. */
  readonly baseMs: number;
  readonly maxMs: number;
  /** The longest `Retry-After` to wait for, in milliseconds; beyond it, the caller gets the error. */
  readonly maxRetryAfterMs: number;
}

export const DEFAULT_RETRY: RetryPolicy = {
  attempts: 4,
  baseMs: 250,
  maxMs: 8_000,
  maxRetryAfterMs: 30_000,
};

/** With 408 and gateway statuses, the service has not decided about the request. */
const REPEATABLE = new Set([408, 429, 502, 503, 504]);

/** Whether to retry a request that is safe to repeat. */
export function isRepeatable(error: unknown): boolean {
  return (
    (error instanceof SignetTransportError && error.code !== "INVALID_ANSWER") ||
    (error instanceof SignetApiError && REPEATABLE.has(error.status))
  );
}

/** Whether the service rejected the request before it did anything. */
export function isRateLimited(error: unknown): boolean {
  return error instanceof SignetApiError && error.status === 429;
}

/** Full jitter, so that clients that failed together do not retry together. */
function delayMs(policy: RetryPolicy, attempt: number, error: unknown, random: number): number | undefined {
  const backoff = Math.min(policy.maxMs, policy.baseMs * 2 ** attempt) * random;
  const wanted = error instanceof SignetApiError ? error.retryAfterMs : null;
  if (wanted === null) {
    return backoff;
  }
  return wanted > policy.maxRetryAfterMs ? undefined : wanted + policy.baseMs * random;
}

export interface Retrying {
  readonly runtime: Runtime;
  readonly policy: RetryPolicy;
  readonly repeat: (error: unknown) => boolean;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs the operation until it succeeds, fails permanently, or uses up its attempts.
 *
 * @param operation gets the attempt's number, from 0
 */
export async function withRetries<T>(
  operation: (attempt: number) => Promise<T>,
  { runtime, policy, repeat, signal }: Retrying,
): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await operation(attempt);
    } catch (error) {
      const last = attempt + 1 >= policy.attempts || signal?.aborted === true || !repeat(error);
      const wait = last ? undefined : delayMs(policy, attempt, error, runtime.random());
      if (wait === undefined) {
        throw error;
      }
      await runtime.sleep(wait, signal);
    }
  }
}
