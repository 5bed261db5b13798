import type { Server } from "node:http";
// region receiver
import { createServer } from "node:http";
import { ssfListener, SsfReceiver } from "../../src/lib/receiver/index.ts"; // "@signet-delivery/client/receiver"

const receiver = new SsfReceiver({
  issuer: "https://signet.example",
  audience: "ssf_01jd3c5xq8m2v7k9r4t6w0zy", // stream_id
  authorization: "Bearer secret", // authorization_header of the stream
});
export const events: Server = createServer(ssfListener(receiver)); // answers every push itself

/** After your JWT library has verified the token. */
export function isRevoked(claims: Record<string, unknown>): boolean {
  return receiver.isDenied(claims);
}
// endregion
