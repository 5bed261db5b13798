/** One request and its answer as JSON, with every failure as an error of this library. */
import { type Problem, SignetApiError, SignetTransportError } from "./errors.ts";
import { retryAfterMs } from "./retry.ts";
import type { Runtime } from "./runtime.ts";

const USER_AGENT = "signet-client";

export interface Exchange {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Milliseconds for the whole exchange. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** What must not be in an error, should an intermediary send it back: the secret, the token. */
  readonly confidential: readonly string[];
}

function parseObject(text: string): Problem {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Problem) : {};
  } catch {
    return {};
  }
}

function withoutConfidential(text: string, confidential: readonly string[]): string {
  return confidential.reduce((rest, secret) => rest.replaceAll(secret, "[removed]"), text);
}

function apiError(response: Response, text: string, now: number): SignetApiError {
  const problem = parseObject(text);
  const named = problem["request_id"];
  return new SignetApiError({
    status: response.status,
    problem,
    requestId: typeof named === "string" ? named : response.headers.get("x-request-id"),
    retryAfterMs: retryAfterMs(response.headers.get("retry-after"), now),
  });
}

function transportError(error: unknown, url: string, timeout: AbortSignal): SignetTransportError {
  const { origin } = new URL(url);
  if (timeout.aborted) {
    return new SignetTransportError("TIMEOUT", `${origin} has not answered in time`);
  }
  // `fetch` says only "fetch failed"; what happened is its cause.
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const message = reason instanceof Error ? reason.message : String(reason);
  return new SignetTransportError("CONNECTION", `${origin} cannot be reached: ${message}`, reason);
}

async function send(runtime: Runtime, exchange: Exchange): Promise<{ response: Response; text: string }> {
  const { method, url, headers, body, timeoutMs, signal } = exchange;
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const response = await runtime.fetch(url, {
      method,
      headers: { accept: "application/json", "user-agent": USER_AGENT, ...headers },
      // A redirect would carry the token, or the secret, to another place.
      redirect: "manual",
      signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
      ...(body === undefined ? {} : { body }),
    });
    return { response, text: await response.text() };
  } catch (error) {
    signal?.throwIfAborted();
    throw transportError(error, url, timeout);
  }
}

/**
 * Sends the request and reads the answer; undefined when that has no body.
 *
 * @throws SignetApiError for any status but 2xx, SignetTransportError, the signal's reason
 */
export async function exchangeJson(runtime: Runtime, exchange: Exchange): Promise<unknown> {
  const { response, text } = await send(runtime, exchange);
  if (!response.ok) {
    throw apiError(response, withoutConfidential(text, exchange.confidential), runtime.clock.now());
  }
  if (text === "") {
    return undefined;
  }
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // Without the parser's error: it quotes what it could not read.
    throw new SignetTransportError(
      "INVALID_ANSWER",
      `${new URL(exchange.url).origin} did not answer in JSON`,
    );
  }
}
