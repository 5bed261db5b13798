/** Receivers for the grader: a correct one, and parts to build others with one fault each. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { VerificationError } from "#lib/receiver/errors.ts";
import { verify, type VerifyInput } from "#lib/receiver/verify.ts";

export interface ReceiverRequest {
  readonly headers: IncomingHttpHeaders;
  /** Header names as received. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

export interface ReceiverAnswer {
  readonly status: number;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export type Handler = (request: ReceiverRequest) => ReceiverAnswer | Promise<ReceiverAnswer>;
export type ReadBody = (request: IncomingMessage) => Promise<Buffer>;

const readAll: ReadBody = async (request) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) {
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
};

async function respond(
  handle: Handler,
  read: ReadBody,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { headers, rawHeaders } = request;
  const answer = await handle({ headers, rawHeaders, body: await read(request) });
  response.writeHead(answer.status, answer.headers).end(answer.body);
  request.resume();
}

/** Starts a real HTTP server on a free port of loopback. */
export async function startReceiver(
  handle: Handler,
  read: ReadBody = readAll,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    respond(handle, read, request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

/** Processes each id that `accept` returns once. Answers 400 or 401 if `accept` throws. */
export function processing(
  accept: (request: ReceiverRequest) => string | null,
  { echo = true }: { readonly echo?: boolean } = {},
): Handler {
  const seen = new Set<string>();
  return (request) => {
    try {
      const id = accept(request);
      const processed = id === null || !seen.has(id);
      if (id !== null) {
        seen.add(id);
      }
      return { status: 200, ...(echo ? { body: JSON.stringify({ processed }) } : {}) };
    } catch (error) {
      const badHeaders = error instanceof VerificationError && error.code === "HEADERS_MALFORMED";
      return { status: badHeaders ? 400 : 401 };
    }
  };
}

/** Verifies with Signet's library, with some settings replaced. */
export function acceptWithLibrary(
  secret: string,
  settings: Partial<VerifyInput> = {},
): (request: ReceiverRequest) => string | null {
  return ({ headers, body: rawBody }) =>
    verify({ rawBody, headers, secrets: [secret], now: Date.now(), ...settings }).id;
}

function headerOf(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name];
  if (typeof value !== "string") {
    throw new VerificationError("HEADERS_MALFORMED", `no ${name}`);
  }
  return value;
}

function sha256Of(secret: string, body: Buffer | string): string {
  return `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
}

function sameText(left: string, right: string): boolean {
  return left.length === right.length && timingSafeEqual(Buffer.from(left), Buffer.from(right));
}

/** A handwritten verification of `sha256=`. Each part can be omitted or done wrong. */
export interface ByHand {
  readonly signed?: (body: Buffer) => Buffer | string;
  readonly same?: (given: string, expected: string) => boolean;
  readonly signature?: (request: ReceiverRequest) => string | undefined;
  readonly checkAge?: boolean;
  /** Whether the header's time is checked against `sent_at`. */
  readonly checkHeaderTime?: boolean;
  readonly idFrom?: "body" | "header";
}

export function acceptByHand(
  secret: string,
  {
    signed = (body) => body,
    same = sameText,
    signature = ({ headers }) => headerOf(headers, "x-service-signature-256"),
    checkAge = true,
    checkHeaderTime = true,
    idFrom = "body",
  }: ByHand = {},
): (request: ReceiverRequest) => string | null {
  return (request) => {
    const { headers, body } = request;
    const given = signature(request);
    if (given !== undefined) {
      const expected = sha256Of(secret, signed(body));
      // The other signature of a rotation is valid too.
      const alternative = headers["x-service-signature-256-alt"];
      if (!same(given, expected) && !(typeof alternative === "string" && same(alternative, expected))) {
        throw new VerificationError("SIGNATURE_INVALID", "no");
      }
    }
    const at = Number(headerOf(headers, "x-service-timestamp"));
    const age = Math.floor(Date.now() / 1_000) - at;
    if (checkAge && (age > 300 || age < -60)) {
      throw new VerificationError("PAYLOAD_EXPIRED", "no");
    }
    const { id, sent_at: sentAt } = JSON.parse(body.toString()) as { id: string; sent_at: number };
    if (checkHeaderTime && sentAt !== at) {
      throw new VerificationError("TIMESTAMP_MISMATCH", "no");
    }
    return idFrom === "body" ? id : headerOf(headers, "x-service-event-id");
  };
}
