/** A receiver for `node:http` and Express. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { SsfReceiver } from "./ssf-receiver.ts";
import { createReceiver, type ReceiverOptions, tell } from "./receive.ts";

/** 512 KiB: 256 KiB of data, the envelope, and reserve. */
export const MAX_BODY_BYTES = 524_288;
const BODY_MS = 10_000;
/** Maximum size of a security event token. */
const SET_BYTES = 65_536;

type BodyProblem = 400 | 408 | 413 | 500;

/** Returns the whole body, or the status of the failure. */
function readBody(
  request: IncomingMessage,
  maxBytes: number,
  withinMs: number,
): Promise<Buffer | BodyProblem> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const timer = setTimeout(() => end(408), withinMs);
    function end(result: Buffer | BodyProblem): void {
      clearTimeout(timer);
      request.off("data", onData);
      resolve(result);
    }
    function onData(chunk: Buffer): void {
      bytes += chunk.length;
      if (bytes > maxBytes) {
        end(413);
      } else {
        chunks.push(chunk);
      }
    }
    request.on("data", onData);
    request.once("end", () => end(Buffer.concat(chunks)));
    request.once("error", () => end(400));
    request.once("close", () => end(400));
  });
}

/** Returns the raw body left by an earlier body parser; a parsed body cannot be verified. */
function parsedBefore(
  request: IncomingMessage & { readonly body?: unknown },
): Buffer | BodyProblem | undefined {
  const { body } = request;
  if (body instanceof Uint8Array) {
    return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  }
  return request.readableEnded || (body !== undefined && body !== null) ? 500 : undefined;
}

/**
 * A request listener: `createServer(webhookListener({ secrets, onEvent }))`, or with Express
 * `app.post("/hook", webhookListener({ secrets, onEvent }))`, before any `express.json()`; `express.raw()` is harmless.
 * It answers 200, 400, 401, 405, 408, 413 and 500 itself.
 */
export function webhookListener(
  options: ReceiverOptions,
): (request: IncomingMessage, response: ServerResponse) => void {
  const { maxBodyBytes = MAX_BODY_BYTES, bodyMs = BODY_MS, onError } = options;
  const receiver = createReceiver(options);

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== "POST") {
      response.writeHead(405, { Allow: "POST", Connection: "close" }).end();
      return;
    }
    const body = parsedBefore(request) ?? (await readBody(request, maxBodyBytes, bodyMs));
    if (typeof body === "number") {
      if (body === 500) {
        tell(onError, new TypeError("a body parser has read the body: mount the listener before it"));
      }
      // The rest of the body is not read.
      response.writeHead(body, { Connection: "close" }).end();
      return;
    }
    const answer = await receiver.receive(body, request.headersDistinct);
    response.writeHead(answer.status, { "Content-Type": "application/json" }).end(answer.body);
  }

  return (request, response) => {
    handle(request, response).catch((error: unknown) => {
      tell(onError, error);
      response.destroy();
    });
  };
}

/** A request listener: `createServer(ssfListener(receiver))`. It answers 202, 400, 405, 408, 413 and 503 itself. */
export function ssfListener(
  receiver: Pick<SsfReceiver, "receive">,
): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => {
    void readBody(request, SET_BYTES, BODY_MS).then(async (body) => {
      if (request.method !== "POST" || typeof body === "number") {
        response.writeHead(typeof body === "number" ? body : 405, { Connection: "close" }).end();
        return;
      }
      const answer = await receiver.receive(body, request.headersDistinct);
      response.writeHead(answer.status, answer.headers).end(answer.body);
    });
  };
}
