/** Reads what is kept of a receiver's response: text for the tenant, and the requested wait. */
import { withoutSpace } from "#http/list-header.ts";
import { retryAfterMs } from "#lib/retry-after.ts";

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

/** Longer waits are not meaningful. */
const MAX_RETRY_AFTER_MS = 604_800_000;

/**
 * Returns the wait that the receiver requests, in milliseconds, at most 7 days, for any status. Null if the header is
 * absent, repeated or invalid.
 */
export function requestedWaitMs(header: string | string[] | undefined, nowMs: number): number | null {
  const wait = typeof header === "string" ? retryAfterMs(withoutSpace(header), nowMs) : null;
  return wait === null ? null : Math.min(wait, MAX_RETRY_AFTER_MS);
}
