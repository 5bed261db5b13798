/** Receivers for frameworks with `Request` and `Response` of the Fetch standard: Next.js, Hono, Azure Functions. */
import { RequestError } from "./errors.ts";
import { answeringSecurityEvents, answeringWebhooks, type SecurityEvents } from "./node-http.ts";
import type { ReceiverOptions } from "./receive.ts";
import { alreadyRead, type Answering, checkSize, type Limits, respond } from "./respond.ts";

interface BodyReader {
  read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
  cancel(): Promise<void>;
}

/** The used part of a `Request`. */
export interface WebRequest {
  readonly method: string;
  readonly headers: { get(name: string): string | null };
  readonly bodyUsed: boolean;
  readonly body: { getReader(): BodyReader } | null;
}

export type WebHandler = (request: WebRequest) => Promise<Response>;

async function readChunks(reader: BodyReader, limits: Limits): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      throw new RequestError(400, "the body did not arrive");
    });
    if (done) {
      return Buffer.concat(chunks);
    }
    bytes += value?.length ?? 0;
    checkSize(bytes, limits);
    chunks.push(value ?? Buffer.alloc(0));
  }
}

function readerOf(body: NonNullable<WebRequest["body"]>): BodyReader {
  try {
    return body.getReader();
  } catch {
    // Somebody else reads it.
    throw alreadyRead();
  }
}

async function readWeb({ body, bodyUsed }: WebRequest, limits: Limits): Promise<Buffer> {
  if (bodyUsed) {
    throw alreadyRead();
  }
  if (body === null) {
    return Buffer.alloc(0);
  }
  const reader = readerOf(body);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const error = new RequestError(408, `the body took more than ${limits.withinMs} ms`);
    timer = setTimeout(() => reject(error), limits.withinMs);
  });
  try {
    return await Promise.race([readChunks(reader, limits), late]);
  } catch (error) {
    // Nobody waits for the rest.
    void reader.cancel().catch(() => undefined);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

function handler({ limits, ...answering }: Answering & { readonly limits: Limits }): WebHandler {
  return async (request) => {
    const { method, headers } = request;
    const read = async (): Promise<Uint8Array> => await readWeb(request, limits);
    const answer = await respond({ method, headers, read }, answering);
    return new Response(answer.body, { status: answer.status, headers: answer.headers });
  };
}

/**
 * A handler of requests: `export const POST = webhookHandler({ secrets, onEvent })` as a route handler of Next.js, or
 * `app.post("/hook", (context) => handle(context.req.raw))` with Hono. Let nothing read the body before it. It answers 200,
 * 400, 401, 405, 408, 413 and 500.
 *
 * @throws TypeError for an option that is missing or wrong
 */
export function webhookHandler(options: ReceiverOptions): WebHandler {
  return handler(answeringWebhooks(options));
}

/** The same for security events: `ssfHandler(receiver)`. It answers 202, 400, 405, 408, 413, 500 and 503. */
export function ssfHandler(receiver: SecurityEvents): WebHandler {
  return handler(answeringSecurityEvents(receiver));
}
