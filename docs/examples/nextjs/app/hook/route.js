// region hook
import { webhookHandler } from "@signet-delivery/client/receiver";
import { shop } from "../../lib/open.mjs";

let handle;

export async function POST(request) {
  // At the first request, because `next build` runs without the secret.
  handle ??= webhookHandler({
    secrets: process.env.WEBHOOK_SECRET,
    onEvent: (event) => shop().store(event),
    onError: console.error,
  });
  return await handle(request);
}
// endregion
