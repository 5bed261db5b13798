/** The maximum length of a request target. */
import { SignetError } from "#domain/errors.ts";

/** Maximum length, in characters. RFC 9110 section 4.1 recommends at least 8,000; Node limits all headers to 16 KiB. */
export const URI_MAX = 8_192;

/** Returns a 414. */
export function uriTooLong(cause?: unknown): SignetError {
  return new SignetError("URI_TOO_LONG", {
    detail: `The path and query of a request may have at most ${URI_MAX} characters.`,
    headers: { connection: "close" },
    cause,
  });
}
