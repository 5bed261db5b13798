// region verify
import { Webhook } from "standardwebhooks";

export function accept(secret: string, rawBody: Buffer, headers: Record<string, string>): unknown {
  return new Webhook(secret).verify(rawBody, headers); // throws if it is invalid
}
// endregion
