/** API calls: with a token, retried if that is safe. */
import { SignetApiError, SignetTransportError } from "./errors.ts";
import { type Exchange, exchangeJson, exchangeStream, type OpenAnswer } from "./exchange.ts";
import { parseWithRaw, stringifyWithRaw } from "./raw-json.ts";
import { isRateLimited, isRepeatable, type RetryPolicy, withRetries } from "./retry.ts";
import { abortable, type Runtime } from "./runtime.ts";
import type { AccessToken, TokenSource } from "./token-source.ts";
import { normalBaseUrl } from "./token-sources.ts";

/** Codes of a 401 that a new token fixes: expired, revoked, or bound to a renewed certificate. */
const FRESH_TOKEN_HELPS = new Set(["TOKEN_EXPIRED", "TOKEN_REVOKED", "CERT_BINDING_MISMATCH"]);

/** Query values; undefined ones are omitted. */
export type Query = Readonly<Record<string, string | number | Date | undefined>>;

/** Options of every call. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface ApiCall extends CallOptions {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Path below the base address, with encoded segments. */
  readonly path: string;
  readonly query?: Query;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Makes a POST safe to repeat. */
  readonly idempotencyKey?: string | undefined;
  /** Marks a POST that is safe to repeat without a key. */
  readonly repeatable?: boolean;
}

export type { OpenAnswer };

/** Expectations of a streamed answer. */
export interface StreamShape {
  readonly mediaType: string;
  /** Maximum silence, in milliseconds; the timeout of one request by default. */
  readonly idleMs?: number;
}

type Exchanging<T> = (runtime: Runtime, exchange: Exchange) => Promise<T>;

export interface TransportOptions {
  readonly runtime: Runtime;
  /** Without a trailing slash. */
  readonly baseUrl: string;
  /** All addresses that may get the token, `baseUrl` among them. */
  readonly addresses: ReadonlySet<string>;
  readonly source: TokenSource;
  readonly retry: RetryPolicy;
  readonly timeoutMs: number;
  /** Numbers that a double would change come as {@link RawJson}. */
  readonly exactNumbers: boolean;
}

/** Returns the path of a call with its query. */
export function pathOf({ path, query = {} }: ApiCall): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) {
      parameters.set(name, value instanceof Date ? value.toISOString() : String(value));
    }
  }
  const text = parameters.toString();
  return text === "" ? path : `${path}?${text}`;
}

function isSafeToRepeat({ method, idempotencyKey, repeatable = false }: ApiCall): boolean {
  return method === "GET" || method === "DELETE" || idempotencyKey !== undefined || repeatable;
}

interface Attempt<T> {
  readonly token: AccessToken;
  /** Earlier ones. */
  readonly count: number;
  readonly exchanging: Exchanging<T>;
}

/** Destination of one request. */
interface Destination {
  readonly address: string;
  readonly token: AccessToken;
}

/** Returns the base URL that an answer 421 names: the API of another region. */
function namedAddress({ status, problem: { base_url: named } }: SignetApiError): string | undefined {
  try {
    return status === 421 && typeof named === "string" ? normalBaseUrl(named) : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the part of a path that decides which cell serves it, for instance `/v1/events`. */
function kindOf({ path }: ApiCall): string {
  return path.split("/", 3).join("/");
}

export class Transport {
  readonly #options: TransportOptions;
  /** APIs of other regions, by kind of path. */
  readonly #addresses = new Map<string, string>();

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  get runtime(): Runtime {
    return this.#options.runtime;
  }

  /** Parses the service's JSON. */
  parse(text: string): unknown {
    return this.#options.exactNumbers ? parseWithRaw(text) : (JSON.parse(text) as unknown);
  }

  /**
   * Makes the call and returns the answer's JSON.
   *
   * @throws SignetApiError, SignetTransportError, CredentialStoreError, the signal's reason
   */
  async call<T>(call: ApiCall): Promise<T> {
    return (await this.#perform(call, exchangeJson)) as T;
  }

  /**
   * Makes the call and returns as soon as the answer has begun. The caller must read it to its end or close it.
   *
   * @throws as {@link call}, and so does reading; INVALID_ANSWER for another media type
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
    // The source has already retried its own requests.
    return await withRetries(attempt, {
      runtime,
      policy: retry,
      repeat: (error) => sent && repeat(error),
      signal: call.signal,
    });
  }

  async #attempt<T>(call: ApiCall, { token, count, exchanging }: Attempt<T>): Promise<T> {
    // Meanwhile another call may learn the address.
    const asked = this.#addresses.get(kindOf(call)) ?? this.#options.baseUrl;
    try {
      return await this.#send(call, { address: asked, token }, exchanging);
    } catch (error) {
      if (!(error instanceof SignetApiError)) {
        throw error;
      }
      const address = namedAddress(error);
      if (address !== undefined && address !== asked) {
        this.#learn(call, address, error);
        // The request was not processed, so any method may be sent again.
        return await this.#send(call, { address, token }, exchanging);
      }
      if (error.status === 401 && FRESH_TOKEN_HELPS.has(error.code)) {
        const fresh = await abortable(this.#options.source.tokenInsteadOf(token.value), call.signal);
        return await this.#send(call, { address: asked, token: fresh }, exchanging);
      }
      if (call.method === "DELETE" && count > 0 && error.status === 404) {
        // The first request succeeded, but its answer was lost.
        return undefined as T;
      }
      throw error;
    }
  }

  /**
   * Keeps the address for calls of this kind.
   *
   * @throws SignetApiError if the caller has not listed the address: an answer could name any host
   */
  #learn(call: ApiCall, address: string, error: SignetApiError): void {
    if (!this.#options.addresses.has(address)) {
      const advice = `The client sends no token to ${address}: add it to regionUrls (command line: SIGNET_API_REGION_URLS) if it is an API of yours.`;
      const { status, problem, requestId, retryAfterMs } = error;
      throw new SignetApiError({ status, problem, requestId, retryAfterMs, advice });
    }
    this.#addresses.set(kindOf(call), address);
  }

  /** Sends the request. Forgets a learned address that gives no usable answer: the first API may name another. */
  async #send<T>(call: ApiCall, { address, token }: Destination, exchanging: Exchanging<T>): Promise<T> {
    try {
      return await this.#exchange(call, { address, token }, exchanging);
    } catch (error) {
      if (error instanceof SignetTransportError && this.#addresses.get(kindOf(call)) === address) {
        this.#addresses.delete(kindOf(call));
      }
      throw error;
    }
  }

  async #exchange<T>(call: ApiCall, { address, token }: Destination, exchanging: Exchanging<T>): Promise<T> {
    const { runtime, timeoutMs } = this.#options;
    const { body, idempotencyKey } = call;
    return await exchanging(runtime, {
      method: call.method,
      url: address + pathOf(call),
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
