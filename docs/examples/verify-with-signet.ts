import type { IncomingHttpHeaders } from "node:http";
// region verify
import { verify } from "../../src/lib/receiver/index.ts"; // "@signet-delivery/client/receiver"

export function accept(secret: string, rawBody: Buffer, headers: IncomingHttpHeaders): unknown {
  return verify({ rawBody, headers, secrets: [secret], now: Date.now() }).payload; // throws if it is invalid
}
// endregion
