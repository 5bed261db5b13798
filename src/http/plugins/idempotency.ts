/**
 * Idempotency-Key for every authenticated POST (contract 6.2). A route that declares the header in its schema
 * handles it in its own transaction; for every other POST this plugin wraps the handler.
 */
import type {
  FastifyRequest,
  onSendAsyncHookHandler,
  preHandlerAsyncHookHandler,
  RouteOptions,
} from "fastify";
import {
  beginOnce,
  type BegunWork,
  type OwnersTransaction,
  repeatableRequest,
  type RepeatableServices,
} from "../repeatable.ts";
import { IdempotencyHeaders } from "../common.ts";
import type { SignetServer } from "../types.ts";

/** The owner of idempotency keys. */
export interface IdempotencyOwner {
  readonly ownerId: string;
  /** Distinguishes the requests of callers that share the owner's keys. */
  readonly author?: string | undefined;
  readonly transact: OwnersTransaction;
}

export interface IdempotencyServices extends RepeatableServices {
  readonly ownerOf: (request: FastifyRequest) => IdempotencyOwner;
}

/** A stored response. */
interface WireAnswer {
  readonly status: number;
  readonly type: string | null;
  readonly body: string;
}

/** Checks for a POST authenticated by token. Public routes, OAuth endpoints and portal forms have their own rules. */
function isOwnedPost({ method, config }: RouteOptions): boolean {
  const { proxied, public: open, rawBody, portal } = config ?? {};
  return method === "POST" && proxied !== true && open !== true && rawBody !== true && portal === undefined;
}

/** Handles keys for every POST that is registered after this call and does not handle them itself. */
export function installIdempotency(server: SignetServer, services: IdempotencyServices): void {
  const begun = new WeakMap<FastifyRequest, BegunWork<WireAnswer>>();

  const begin: preHandlerAsyncHookHandler = async (request, reply) => {
    if (request.headers["idempotency-key"] === undefined) {
      return;
    }
    const { ownerId, author, transact } = services.ownerOf(request);
    const repeatable = repeatableRequest(request, ownerId, author);
    if (repeatable === undefined) {
      return;
    }
    const work = await beginOnce<WireAnswer>(transact, repeatable, services);
    if ("begun" in work) {
      begun.set(request, work.begun);
      return;
    }
    const { status, type, body } = work.answer;
    if (type !== null) {
      reply.type(type);
    }
    reply.code(status).header("cache-control", "no-store").header("idempotent-replayed", "true");
    await reply.send(body);
  };

  const end: onSendAsyncHookHandler = async (request, reply, payload: unknown) => {
    const work = begun.get(request);
    if (work !== undefined) {
      begun.delete(request);
      const done = reply.statusCode < 300 && (typeof payload === "string" || !payload);
      const type = reply.getHeader("content-type");
      await (done
        ? work.keep({
            status: reply.statusCode,
            type: typeof type === "string" ? type : null,
            body: typeof payload === "string" ? payload : "",
          })
        : work.free());
    }
    return payload;
  };

  server.addHook("onRoute", (route) => {
    if (!isOwnedPost(route) || route.schema?.headers === IdempotencyHeaders) {
      return;
    }
    if (route.schema?.headers !== undefined) {
      throw new Error(`${route.url}: a POST must not declare other headers than IdempotencyHeaders`);
    }
    route.schema = { ...route.schema, headers: IdempotencyHeaders };
    route.preHandler = [...[route.preHandler ?? []].flat(), begin];
    route.onSend = [...[route.onSend ?? []].flat(), end];
  });
}
