/** Receivers for `node:http`, `node:http2` and Express, also behind the adapters of serverless platforms. */
import type { Readable } from "node:stream";
import { types } from "node:util";
import { RequestError } from "./errors.ts";
import type { HeaderSource } from "./headers.ts";
import { createReceiver, type ReceiverOptions, type WebhookReceiver } from "./receive.ts";
import { reporter } from "./report.ts";
import {
  alreadyRead,
  type Answering,
  BODY_MS,
  checkSize,
  type Limits,
  MAX_BODY_BYTES,
  respond,
  SET_BYTES,
} from "./respond.ts";
import type { SsfReceiver } from "./ssf-receiver.ts";

/** The used part of a request of `node:http`, of `node:http2`, or of an adapter that builds one. */
export interface ListenerRequest extends Readable {
  readonly method?: string | undefined;
  /** A text behind some adapters. */
  readonly httpVersionMajor?: number | string;
  readonly headers: NodeJS.Dict<string | string[]>;
  /** Empty behind adapters that fill `headers` alone, and absent in HTTP/2 and `fastify.inject`. */
  readonly headersDistinct?: NodeJS.Dict<string[]>;
}

/** The used part of a response. */
export interface ListenerResponse {
  writeHead(status: number, headers: Record<string, string>): unknown;
  end(body: string): unknown;
  destroy(): unknown;
}

export type Listener = (request: ListenerRequest, response: ListenerResponse) => void;

/** Returns the headers of a request: each as it was sent, or joined by a comma, which no format here allows. */
export function headersOf({ headers, headersDistinct = {} }: ListenerRequest): HeaderSource {
  const joined = Object.entries(headers).filter(
    ([name]) => headersDistinct[name.toLowerCase()] === undefined,
  );
  return { ...Object.fromEntries(joined), ...headersDistinct };
}

function bytesOf(value: unknown): Buffer | undefined {
  if (typeof value === "string") {
    return Buffer.from(value);
  }
  return types.isUint8Array(value)
    ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    : undefined;
}

async function readStream(request: Readable, limits: Limits): Promise<Buffer> {
  return await new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const late = new RequestError(408, `the body took more than ${limits.withinMs} ms`);
    const timer = setTimeout(() => end(() => reject(late)), limits.withinMs);
    const broken = (): void => end(() => reject(new RequestError(400, "the body did not arrive")));
    function end(settle: () => void): void {
      clearTimeout(timer);
      request.off("data", onData);
      settle();
    }
    function onData(chunk: Buffer): void {
      bytes += chunk.length;
      try {
        checkSize(bytes, limits);
        chunks.push(chunk);
      } catch (error) {
        end(() => reject(error));
      }
    }
    request.on("data", onData);
    request.once("end", () => end(() => resolve(Buffer.concat(chunks))));
    request.once("error", broken);
    request.once("close", broken);
  });
}

/**
 * Returns the bytes of a body. Platforms and parsers that have read it leave them as `rawBody` or `body`.
 *
 * @throws RequestError
 */
export async function bodyOf(request: Readable, limits: Limits): Promise<Buffer> {
  const { rawBody, body } = request as { rawBody?: unknown; body?: unknown };
  const kept = bytesOf(rawBody) ?? bytesOf(body);
  if (kept !== undefined) {
    checkSize(kept.length, limits);
    return kept;
  }
  // What is in `body` says nothing: parsers leave an empty object for types that they do not parse.
  if (request.readableDidRead || request.readableEnded) {
    throw alreadyRead();
  }
  return await readStream(request, limits);
}

function listener(answering: Answering, limits: Limits): Listener {
  async function handle(request: ListenerRequest, response: ListenerResponse): Promise<void> {
    const incoming = {
      method: request.method,
      headers: headersOf(request),
      read: async () => await bodyOf(request, limits),
    };
    const { status, headers, body, closes } = await respond(incoming, answering);
    // HTTP/2 has no such header: its streams end on their own.
    const closing = closes && Number(request.httpVersionMajor ?? 1) < 2 ? { Connection: "close" } : {};
    response.writeHead(status, { ...headers, ...closing });
    response.end(body);
  }
  return (request, response) => {
    handle(request, response).catch((error: unknown) => {
      answering.report(error);
      response.destroy();
    });
  };
}

/** How webhooks are answered, for an adapter of a framework. */
export function answeringWebhooks(options: ReceiverOptions): Answering & { readonly limits: Limits } {
  const receiver: WebhookReceiver = createReceiver(options);
  const { maxBodyBytes = MAX_BODY_BYTES, bodyMs = BODY_MS, onError } = options;
  return {
    receive: async (body, headers) => ({
      ...(await receiver.receive(body, headers)),
      headers: { "Content-Type": "application/json" },
    }),
    report: reporter(onError, "webhook"),
    limits: { maxBytes: maxBodyBytes, withinMs: bodyMs },
  };
}

/** How security events are answered, for an adapter of a framework. */
export function answeringSecurityEvents(receiver: SecurityEvents): Answering & { readonly limits: Limits } {
  return {
    receive: async (body, headers) => await receiver.receive(body, headers),
    report: reporter(receiver.onError, "security event"),
    limits: { maxBytes: SET_BYTES, withinMs: BODY_MS },
  };
}

/** The used part of an {@link SsfReceiver}. */
export type SecurityEvents = Pick<SsfReceiver, "receive"> & Partial<Pick<SsfReceiver, "onError">>;

/**
 * A request listener: `createServer(webhookListener({ secrets, onEvent }))`, or with Express
 * `app.post("/hook", webhookListener({ secrets, onEvent }))`, before any `express.json()`. It takes bytes that a platform or
 * `express.raw()` has left in `rawBody` or `body`. It answers 200, 400, 401, 405, 408, 413 and 500 itself.
 *
 * @throws TypeError for an option that is missing or wrong
 */
export function webhookListener(options: ReceiverOptions): Listener {
  const { limits, ...answering } = answeringWebhooks(options);
  return listener(answering, limits);
}

/** A request listener: `createServer(ssfListener(receiver))`. It answers 202, 400, 405, 408, 413, 500 and 503 itself. */
export function ssfListener(receiver: SecurityEvents): Listener {
  const { limits, ...answering } = answeringSecurityEvents(receiver);
  return listener(answering, limits);
}
