/** How long a request's target may be. */
import { SignetError } from "../domain/errors.ts";

/** Characters; RFC 9110 section 4.1 asks for 8,000 at least. Node ends at 16 KiB of all headers together. */
export const URI_MAX = 8_192;

/** 414: nothing that has an address here is as long. */
export function uriTooLong(cause?: unknown): SignetError {
  return new SignetError("URI_TOO_LONG", {
    detail: `The path and query of a request may have ${URI_MAX} characters.`,
    headers: { connection: "close" },
    cause,
  });
}
