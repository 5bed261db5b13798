import { SignetError } from "../errors.ts";

/** 429 that says when to come back (RFC 6585 section 4). */
export function rateLimited(waitMs: number, detail: string): SignetError {
  return new SignetError("RATE_LIMITED", {
    detail,
    headers: { "retry-after": String(Math.max(1, Math.ceil(waitMs / 1_000))) },
  });
}
