/** A call of the API: with a token, repeated where that is safe. */
import { SignetApiError } from "./errors.ts";
import { exchangeJson } from "./exchange.ts";
import { isRateLimited, isRepeatable, type RetryPolicy, withRetries } from "./retry.ts";
import { abortable, type Runtime } from "./runtime.ts";
import type { AccessToken, TokenSource } from "./token-source.ts";

/** Codes of a 401 that a fresh token mends: it ended, was revoked, or is bound to a certificate that was renewed. */
const FRESH_TOKEN_HELPS = new Set(["TOKEN_EXPIRED", "TOKEN_REVOKED", "CERT_BINDING_MISMATCH"]);

/** Values of a query; undefined ones are left out. */
export type Query = Readonly<Record<string, string | number | Date | undefined>>;

/** What every call takes besides its own arguments. */
export interface CallOptions {
  readonly signal?: AbortSignal;
}

export interface ApiCall extends CallOptions {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Below the base address, its parts encoded. */
  readonly path: string;
  readonly query?: Query;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Makes a POST safe to repeat. */
  readonly idempotencyKey?: string;
  /** A POST that is safe to repeat without a key: what it asks for is done once, however often it is asked. */
  readonly repeatable?: boolean;
}

export interface TransportOptions {
  readonly runtime: Runtime;
  /** Without a slash at its end. */
  readonly baseUrl: string;
  readonly source: TokenSource;
  readonly retry: RetryPolicy;
  readonly timeoutMs: number;
}

function addressOf(baseUrl: string, { path, query = {} }: ApiCall): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) {
      parameters.set(name, value instanceof Date ? value.toISOString() : String(value));
    }
  }
  const text = parameters.toString();
  return text === "" ? baseUrl + path : `${baseUrl}${path}?${text}`;
}

function isSafeToRepeat({ method, idempotencyKey, repeatable = false }: ApiCall): boolean {
  return method === "GET" || method === "DELETE" || idempotencyKey !== undefined || repeatable;
}

/** An id as one part of a path. */
export function segment(id: string): string {
  return encodeURIComponent(id);
}

export class Transport {
  readonly #options: TransportOptions;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  /**
   * Makes the call and returns the answer's JSON as it is.
   *
   * @throws SignetApiError, SignetTransportError, CredentialStoreError, the signal's reason
   */
  async call<T>(call: ApiCall): Promise<T> {
    const { runtime, retry, source } = this.#options;
    const repeat = isSafeToRepeat(call) ? isRepeatable : isRateLimited;
    let sent = false;
    const attempt = async (count: number): Promise<unknown> => {
      sent = false;
      const token = await abortable(source.token(), call.signal);
      sent = true;
      return await this.#attempt(call, token, count);
    };
    // The source has repeated its own requests already.
    return (await withRetries(attempt, {
      runtime,
      policy: retry,
      repeat: (error) => sent && repeat(error),
      signal: call.signal,
    })) as T;
  }

  async #attempt(call: ApiCall, token: AccessToken, attempt: number): Promise<unknown> {
    try {
      return await this.#send(call, token);
    } catch (error) {
      if (!(error instanceof SignetApiError)) {
        throw error;
      }
      if (error.status === 401 && FRESH_TOKEN_HELPS.has(error.code)) {
        const fresh = this.#options.source.tokenInsteadOf(token.value);
        return await this.#send(call, await abortable(fresh, call.signal));
      }
      if (call.method === "DELETE" && attempt > 0 && error.status === 404) {
        // The first request did it; its answer was lost.
        return undefined;
      }
      throw error;
    }
  }

  async #send(call: ApiCall, token: AccessToken): Promise<unknown> {
    const { runtime, baseUrl, timeoutMs } = this.#options;
    const { body, idempotencyKey } = call;
    return await exchangeJson(runtime, {
      method: call.method,
      url: addressOf(baseUrl, call),
      headers: {
        authorization: `Bearer ${token.value}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      timeoutMs,
      signal: call.signal,
      confidential: [token.value],
    });
  }
}
