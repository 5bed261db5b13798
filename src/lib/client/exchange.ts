/** One request and its JSON answer; every failure is an error of this library. */
import { readText } from "../bounded-body.ts";
import { retryAfterMs } from "../retry-after.ts";
import { type Problem, SignetApiError, SignetTransportError } from "./errors.ts";
import { abortable, type Runtime } from "./runtime.ts";

const UNREACHED = "cannot be reached";
const USER_AGENT = "signet-client";

export interface Exchange {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Timeout of the whole exchange, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Parser of the answer's JSON; JSON.parse by default. */
  readonly parse?: (text: string) => unknown;
  /** Texts to keep out of errors if an intermediary echoes them: the secret, the token. */
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
  const wait = response.headers.get("retry-after");
  return new SignetApiError({
    status: response.status,
    problem,
    requestId: typeof named === "string" ? named : response.headers.get("x-request-id"),
    retryAfterMs: wait === null ? null : retryAfterMs(wait, now),
  });
}

function transportError(
  error: unknown,
  { url, timeout, what }: { readonly url: string; readonly timeout: AbortSignal; readonly what: string },
): SignetTransportError {
  const { origin } = new URL(url);
  if (timeout.aborted) {
    return new SignetTransportError("TIMEOUT", `${origin} has not answered in time`);
  }
  // `fetch` says only "fetch failed"; the cause has the reason.
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const message = reason instanceof Error ? reason.message : String(reason);
  return new SignetTransportError("CONNECTION", `${origin} ${what}: ${message}`, reason);
}

async function request(runtime: Runtime, exchange: Exchange, signal: AbortSignal): Promise<Response> {
  const { method, url, headers, body } = exchange;
  return await runtime.fetch(url, {
    method,
    headers: { accept: "application/json", "user-agent": USER_AGENT, ...headers },
    // A redirect would send the token or the secret elsewhere.
    redirect: "manual",
    signal,
    ...(body === undefined ? {} : { body }),
  });
}

function signalOf(limit: AbortSignal, signal: AbortSignal | undefined): AbortSignal {
  return signal === undefined ? limit : AbortSignal.any([limit, signal]);
}

async function send(runtime: Runtime, exchange: Exchange): Promise<{ response: Response; text: string }> {
  const { url, timeoutMs, signal } = exchange;
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const response = await request(runtime, exchange, signalOf(timeout, signal));
    return { response, text: await readText(response) };
  } catch (error) {
    signal?.throwIfAborted();
    throw transportError(error, { url, timeout, what: UNREACHED });
  }
}

/**
 * Sends the request and returns the parsed answer; undefined without a body.
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
    return (exchange.parse ?? JSON.parse)(text) as unknown;
  } catch {
    // Without the parser's error, which quotes the text.
    throw new SignetTransportError(
      "INVALID_ANSWER",
      `${new URL(exchange.url).origin} did not answer in JSON`,
    );
  }
}

/** A started answer. */
export interface OpenAnswer {
  readonly headers: Headers;
  /** Readable once. Rejects when it breaks off or is silent for too long. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Closes the connection; does nothing after the end. */
  readonly close: () => Promise<void>;
}

/** Aborts its signal after a silence of the given time; the reader's own time does not count. */
class SilenceTimeout {
  readonly #controller = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  start(ms: number): void {
    this.#timer = setTimeout(() => this.#controller.abort(), ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  giveUp(): void {
    this.stop();
    this.#controller.abort();
  }
}

/**
 * Sends the request. Resolves once the answer has begun.
 *
 * @throws SignetApiError for any status but 2xx, SignetTransportError, the signal's reason
 */
export async function exchangeStream(
  runtime: Runtime,
  exchange: Exchange,
  { mediaType, idleMs }: { readonly mediaType: string; readonly idleMs: number },
): Promise<OpenAnswer> {
  const { url, signal, timeoutMs, confidential } = exchange;
  const silence = new SilenceTimeout();
  const either = signalOf(silence.signal, signal);
  const failure = (error: unknown, what = UNREACHED): unknown => {
    signal?.throwIfAborted();
    return transportError(error, { url, timeout: silence.signal, what });
  };
  silence.start(timeoutMs);
  const headers = { ...exchange.headers, accept: mediaType };
  const response = await request(runtime, { ...exchange, headers }, either).catch((error: unknown) => {
    throw failure(error);
  });
  if (!response.ok) {
    const text = await readText(response).catch((error: unknown) => {
      throw failure(error);
    });
    silence.stop();
    throw apiError(response, withoutConfidential(text, confidential), runtime.clock.now());
  }
  silence.stop();
  const { origin } = new URL(url);
  if (response.headers.get("content-type")?.split(";")[0]?.trim() !== mediaType || response.body === null) {
    silence.giveUp();
    throw new SignetTransportError("INVALID_ANSWER", `${origin} did not answer with ${mediaType}`);
  }
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  return {
    headers: response.headers,
    chunks: chunksOf(reader, { silence, idleMs, either, failure }),
    close: async () => {
      silence.giveUp();
      await reader.cancel().catch(() => undefined);
    },
  };
}

interface Reading {
  readonly silence: SilenceTimeout;
  readonly idleMs: number;
  readonly either: AbortSignal;
  readonly failure: (error: unknown, what?: string) => unknown;
}

async function* chunksOf(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  { silence, idleMs, either, failure }: Reading,
): AsyncGenerator<Uint8Array, void, void> {
  try {
    for (;;) {
      silence.start(idleMs);
      const read = await abortable(reader.read(), either).catch((error: unknown) => {
        throw failure(error, "has broken off");
      });
      silence.stop();
      if (read.done) {
        return;
      }
      yield read.value;
    }
  } finally {
    silence.giveUp();
    await reader.cancel().catch(() => undefined);
  }
}
