/** A call of the API: with a token, repeated where that is safe. */
import { SignetApiError } from "./errors.ts";
import { type Exchange, exchangeJson, exchangeStream, type OpenAnswer } from "./exchange.ts";
import { parseWithRaw, stringifyWithRaw } from "./raw-json.ts";
import { isRateLimited, isRepeatable, type RetryPolicy, withRetries } from "./retry.ts";
import { abortable, type Runtime } from "./runtime.ts";
import type { AccessToken, TokenSource } from "./token-source.ts";

/** Codes of a 401 that a fresh token mends: it ended, was revoked, or is bound to a certificate that was renewed. */
const FRESH_TOKEN_HELPS = new Set(["TOKEN_EXPIRED", "TOKEN_REVOKED", "CERT_BINDING_MISMATCH"]);

/** Values of a query; undefined ones are left out. */
export type Query = Readonly<Record<string, string | number | Date | undefined>>;

/** What every call takes besides its own arguments. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface ApiCall extends CallOptions {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Below the base address, its parts encoded. */
  readonly path: string;
  readonly query?: Query;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Makes a POST safe to repeat. */
  readonly idempotencyKey?: string;
  /** A POST that is safe to repeat without a key: what it asks for is done once, however often it is asked. */
  readonly repeatable?: boolean;
}

export type { OpenAnswer };

/** What is expected of an answer that is read while it comes. */
export interface StreamShape {
  readonly mediaType: string;
  /** Milliseconds that it may be silent; the time for one request unless said otherwise. */
  readonly idleMs?: number;
}

type Exchanging<T> = (runtime: Runtime, exchange: Exchange) => Promise<T>;

export interface TransportOptions {
  readonly runtime: Runtime;
  /** Without a slash at its end. */
  readonly baseUrl: string;
  readonly source: TokenSource;
  readonly retry: RetryPolicy;
  readonly timeoutMs: number;
  /** Numbers that a double would change come as {@link RawJson}. */
  readonly exactNumbers: boolean;
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

interface Attempt<T> {
  readonly token: AccessToken;
  /** Earlier ones. */
  readonly count: number;
  readonly exchanging: Exchanging<T>;
}

export class Transport {
  readonly #options: TransportOptions;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  get runtime(): Runtime {
    return this.#options.runtime;
  }

  /** Reads JSON of the service. */
  parse(text: string): unknown {
    return this.#options.exactNumbers ? parseWithRaw(text) : (JSON.parse(text) as unknown);
  }

  /**
   * Makes the call and returns the answer's JSON as it is.
   *
   * @throws SignetApiError, SignetTransportError, CredentialStoreError, the signal's reason
   */
  async call<T>(call: ApiCall): Promise<T> {
    return (await this.#perform(call, exchangeJson)) as T;
  }

  /**
   * Makes the call and returns as soon as the answer has begun. Whoever opens it reads it to its end or closes it.
   *
   * @throws as {@link call}, and so does reading; INVALID_ANSWER when it is of another kind
   */
  async open(call: ApiCall, { mediaType, idleMs }: StreamShape): Promise<OpenAnswer> {
    const shape = { mediaType, idleMs: idleMs ?? this.#options.timeoutMs };
    return await this.#perform(
      call,
      async (runtime, exchange) => await exchangeStream(runtime, exchange, shape),
    );
  }

  async #perform<T>(call: ApiCall, exchanging: Exchanging<T>): Promise<T> {
    const { runtime, retry, source } = this.#options;
    const repeat = isSafeToRepeat(call) ? isRepeatable : isRateLimited;
    let sent = false;
    const attempt = async (count: number): Promise<T> => {
      sent = false;
      const token = await abortable(source.token(), call.signal);
      sent = true;
      return await this.#attempt(call, { token, count, exchanging });
    };
    // The source has repeated its own requests already.
    return await withRetries(attempt, {
      runtime,
      policy: retry,
      repeat: (error) => sent && repeat(error),
      signal: call.signal,
    });
  }

  async #attempt<T>(call: ApiCall, { token, count, exchanging }: Attempt<T>): Promise<T> {
    try {
      return await this.#send(call, token, exchanging);
    } catch (error) {
      if (!(error instanceof SignetApiError)) {
        throw error;
      }
      if (error.status === 401 && FRESH_TOKEN_HELPS.has(error.code)) {
        const fresh = this.#options.source.tokenInsteadOf(token.value);
        return await this.#send(call, await abortable(fresh, call.signal), exchanging);
      }
      if (call.method === "DELETE" && count > 0 && error.status === 404) {
        // The first request did it; its answer was lost.
        return undefined as T;
      }
      throw error;
    }
  }

  async #send<T>(call: ApiCall, token: AccessToken, exchanging: Exchanging<T>): Promise<T> {
    const { runtime, baseUrl, timeoutMs } = this.#options;
    const { body, idempotencyKey } = call;
    return await exchanging(runtime, {
      method: call.method,
      url: addressOf(baseUrl, call),
      headers: {
        ...call.headers,
        authorization: `Bearer ${token.value}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
      },
      body: body === undefined ? undefined : stringifyWithRaw(body),
      timeoutMs,
      signal: call.signal,
      parse: (text) => this.parse(text),
      confidential: [token.value],
    });
  }
}
