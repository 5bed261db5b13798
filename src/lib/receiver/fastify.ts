/** Receivers for Fastify, as plugins. */
import type { Readable } from "node:stream";
import {
  answeringSecurityEvents,
  answeringWebhooks,
  bodyOf,
  headersOf,
  type ListenerRequest,
  type SecurityEvents,
} from "./node-http.ts";
import type { ReceiverOptions } from "./receive.ts";
import { type Answering, type Limits, respond } from "./respond.ts";

export interface FastifyReceiverOptions extends ReceiverOptions {
  /** Path of deliveries; `/` by default. */
  readonly path?: string;
}

export interface FastifySsfOptions {
  readonly receiver: SecurityEvents;
  /** Path of pushes; `/` by default. */
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
    parser: (request: unknown, payload: Readable) => Promise<unknown>,
  ): unknown;
  post(
    path: string,
    handler: (
      request: { readonly method: string; readonly body: unknown; readonly raw: ListenerRequest },
      reply: Reply,
    ) => Promise<unknown>,
  ): unknown;
}

function mount(fastify: Instance, path: string, answering: Answering & { readonly limits: Limits }): void {
  fastify.removeAllContentTypeParsers();
  // The failure is answered by the handler, in the receiver's form.
  fastify.addContentTypeParser("*", async (_request, payload) =>
    bodyOf(payload, answering.limits).catch((error: unknown) => error),
  );
  fastify.post(path, async ({ method, body, raw }, reply) => {
    const read = async (): Promise<Uint8Array> => {
      if (body instanceof Error) {
        throw body;
      }
      return await Promise.resolve(body instanceof Uint8Array ? body : Buffer.alloc(0));
    };
    const answer = await respond({ method, headers: headersOf(raw), read }, answering);
    for (const [name, value] of Object.entries(answer.headers)) {
      reply.header(name, value);
    }
    return await reply.code(answer.status).send(answer.body);
  });
}

/**
 * `app.register(webhookPlugin, { path: "/hook", secrets, onEvent })`. The raw body stays inside the plugin; other routes
 * parse theirs as before.
 */
export async function webhookPlugin(fastify: Instance, options: FastifyReceiverOptions): Promise<void> {
  mount(fastify, options.path ?? "/", answeringWebhooks(options));
}

/** `app.register(ssfPlugin, { path: "/events", receiver })`, for an `SsfReceiver`. */
export async function ssfPlugin(
  fastify: Instance,
  { path = "/", receiver }: FastifySsfOptions,
): Promise<void> {
  mount(fastify, path, answeringSecurityEvents(receiver));
}
