/** Reads what is kept of a receiver's response: text for the tenant, and the requested wait. */
import { withoutSpace } from "../../http/list-header.ts";

/** Maximum bytes of the kept body, both of the response and of the text made from it. */
export const KEPT_BODY_BYTES = 4_096;

const REPLACEMENT = "\ufffd";
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Returns the start of a body as UTF-8 text, by default at most 4 KiB. Invalid bytes, and U+0000, which PostgreSQL
 * cannot store, become U+FFFD.
 *
 * @param body kept part of the body
 * @param truncated whether more followed; if so, a character cut in half at the end is dropped
 */
export function responseText(
  body: Buffer,
  truncated: boolean,
  maxBytes: number = KEPT_BODY_BYTES,
): string | null {
  if (body.length === 0) {
    return null;
  }
  const decoded = truncated
    ? new TextDecoder("utf-8", { ignoreBOM: true }).decode(body, { stream: true })
    : decoder.decode(body);
  const text = decoded.replaceAll("\0", REPLACEMENT);
  if (Buffer.byteLength(text) <= maxBytes) {
    return text;
  }
  // Each invalid byte has become three. `encodeInto` stops before a character that does not fit.
  const bytes = new Uint8Array(maxBytes);
  const { written } = new TextEncoder().encodeInto(text, bytes);
  return decoder.decode(bytes.subarray(0, written));
}

/** IMF-fixdate, the only date format that senders may use (RFC 9110, 5.6.7). */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;
/** Longer waits are not meaningful. This also keeps the numbers small. */
const MAX_RETRY_AFTER_MS = 604_800_000;

/**
 * Returns the wait that the receiver requests (RFC 9110 section 10.2.3), in milliseconds, at most 7 days, for any
 * status. Null if the header is absent or invalid.
 */
export function retryAfterMs(header: string | string[] | undefined, nowMs: number): number | null {
  if (typeof header !== "string") {
    return null;
  }
  const value = withoutSpace(header);
  const wait = /^\d{1,10}$/.test(value)
    ? Number(value) * 1_000
    : HTTP_DATE.test(value)
      ? Date.parse(value) - nowMs
      : Number.NaN;
  return Number.isNaN(wait) ? null : Math.min(Math.max(wait, 0), MAX_RETRY_AFTER_MS);
}
