import type { IncomingHttpHeaders } from "node:http";
// region verify
import { verify } from "../../src/lib/receiver/verify.ts";

export function accept(secret: string, rawBody: Buffer, headers: IncomingHttpHeaders): unknown {
  return verify({ rawBody, headers, secrets: [secret], now: Date.now() }).payload; // throws if it is invalid
}
// endregion
