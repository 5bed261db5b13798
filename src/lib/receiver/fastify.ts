/** A receiver for Fastify, as a plugin. */
import type { IncomingHttpHeaders } from "node:http";
import { MAX_BODY_BYTES } from "./node-http.ts";
import { createReceiver, type ReceiverOptions } from "./receive.ts";

export interface FastifyReceiverOptions extends ReceiverOptions {
  /** Path of deliveries; `/` by default. */
  readonly path?: string;
}

interface Reply {
  code(status: number): Reply;
  header(name: string, value: string): Reply;
  send(body: string): unknown;
}

/** The used part of a Fastify instance, so that this library needs no Fastify package. */
interface Instance {
  removeAllContentTypeParsers(): void;
  addContentTypeParser(
    type: string,
    options: { readonly parseAs: "buffer" },
    parser: (request: unknown, body: Buffer, done: (error: null, body: Buffer) => void) => void,
  ): unknown;
  post(
    path: string,
    options: { readonly bodyLimit: number },
    handler: (
      request: { readonly headers: IncomingHttpHeaders; readonly body: unknown; readonly raw: RawRequest },
      reply: Reply,
    ) => Promise<unknown>,
  ): unknown;
}

interface RawRequest {
  readonly headersDistinct: NodeJS.Dict<string[]>;
}

/**
 * `app.register(webhookPlugin, { path: "/hook", secrets, onEvent })`. The raw body stays inside the plugin; other routes
 * parse theirs as before.
 */
export async function webhookPlugin(fastify: Instance, options: FastifyReceiverOptions): Promise<void> {
  const receiver = createReceiver(options);
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  fastify.post(
    options.path ?? "/",
    { bodyLimit: options.maxBodyBytes ?? MAX_BODY_BYTES },
    async ({ body, raw }, reply) => {
      const bytes = body instanceof Uint8Array ? body : Buffer.alloc(0);
      const answer = await receiver.receive(bytes, raw.headersDistinct);
      return await reply.code(answer.status).header("content-type", "application/json").send(answer.body);
    },
  );
}
