/** What is kept of a receiver's response: text for the tenant to read, and the time it asks us to wait. */

/** Bytes of the body that are kept, of the response and of the text made from it. */
export const KEPT_BODY_BYTES = 4_096;

const REPLACEMENT = "\ufffd";
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * The beginning of a body as text of at most 4 KiB of UTF-8, unless another limit is given. Bad bytes and U+0000, which PostgreSQL cannot store,
 * become U+FFFD.
 *
 * @param body what was kept of the body
 * @param truncated whether more followed: then a character cut in half at the end is left out
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
  // Each bad byte has become three. `encodeInto` stops before a character that does not fit.
  const bytes = new Uint8Array(maxBytes);
  const { written } = new TextEncoder().encodeInto(text, bytes);
  return decoder.decode(bytes.subarray(0, written));
}

/** IMF-fixdate, the one date format that senders may use (RFC 9110, 5.6.7). */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;
/** What exceeds the bounds of a number of seconds is no wait that anybody means; this keeps the numbers small. */
const MAX_RETRY_AFTER_MS = 604_800_000;

/**
 * Milliseconds that the receiver asks us to wait (RFC 9110 section 10.2.3), at most 7 days, whatever the status of its
 * answer; null when the header is absent or invalid.
 */
export function retryAfterMs(header: string | string[] | undefined, nowMs: number): number | null {
  if (typeof header !== "string") {
    return null;
  }
  const value = header.trim();
  const wait = /^\d{1,10}$/.test(value)
    ? Number(value) * 1_000
    : HTTP_DATE.test(value)
      ? Date.parse(value) - nowMs
      : Number.NaN;
  return Number.isNaN(wait) ? null : Math.min(Math.max(wait, 0), MAX_RETRY_AFTER_MS);
}
