/** From a request to its answer, alike in every framework. */
import { RequestError } from "./errors.ts";
import { type HeaderSource, valuesOf } from "./headers.ts";
import type { Report } from "./report.ts";

/** 512 KiB: 256 KiB of data, the envelope, and reserve. */
export const MAX_BODY_BYTES = 524_288;
/** Timeout of a whole body. */
export const BODY_MS = 10_000;
/** Maximum size of a security event token. */
export const SET_BYTES = 65_536;

export interface Limits {
  readonly maxBytes: number;
  readonly withinMs: number;
}

/** What a framework knows of a request. */
interface Incoming {
  readonly method: string | undefined;
  readonly headers: HeaderSource;
  /** @throws RequestError */
  readonly read: () => Promise<Uint8Array>;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Answering {
  readonly receive: (body: Uint8Array, headers: HeaderSource) => Promise<HttpAnswer>;
  readonly report: Report;
}

/** For a program whose body parser has left no bytes. */
export function alreadyRead(): RequestError {
  return new RequestError(
    500,
    "the body was read before this receiver, and its bytes are lost: mount the receiver before any body parser, or keep the bytes as rawBody",
  );
}

/** @throws RequestError for an empty body that was not empty when it was sent, for a parser has read it */
export function checkUnread(body: Uint8Array, headers: HeaderSource): void {
  const [length = ""] = valuesOf(headers, "content-length");
  if (body.length === 0 && /^0*[1-9][0-9]*$/.test(length)) {
    throw alreadyRead();
  }
}

/** @throws RequestError 413 */
export function checkSize(bytes: number, { maxBytes }: Limits): void {
  if (bytes > maxBytes) {
    throw new RequestError(413, `the body exceeds ${maxBytes} bytes`);
  }
}

/** Reads and answers a request. `closes`: the rest of the body is not read, so the connection cannot be used again. */
export async function respond(
  { method, headers, read }: Incoming,
  { receive, report }: Answering,
): Promise<HttpAnswer & { readonly closes: boolean }> {
  try {
    if (method !== "POST") {
      throw new RequestError(405, "it is not a POST");
    }
    return { ...(await receive(await read(), headers)), closes: false };
  } catch (error) {
    if (!(error instanceof RequestError)) {
      throw error;
    }
    const { status } = error;
    report(error, status === 500 ? undefined : String(status));
    return { status, headers: status === 405 ? { Allow: "POST" } : {}, body: "", closes: true };
  }
}
