// region hook
import { createReceiver } from "@signet-delivery/client/receiver";
import { shop } from "../../lib/open.mjs";

const MAX_BYTES = 524_288;
let receiver;

export async function POST(request) {
  receiver ??= createReceiver({
    secrets: [process.env.WEBHOOK_SECRET],
    onEvent: (event) => shop().store(event),
    onError: console.error,
  });
  const chunks = [];
  let bytes = 0;
  for await (const chunk of request.body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) {
      return new Response(null, { status: 413 });
    }
    chunks.push(chunk);
  }
  // request.json() would lose the raw bytes, which the signature covers.
  const { status, body } = await receiver.receive(Buffer.concat(chunks), request.headers);
  return new Response(body, { status, headers: { "content-type": "application/json" } });
}
// endregion
