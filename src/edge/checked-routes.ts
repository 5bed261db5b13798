/**
 * Routes of a proxy that asks before it forwards: Envoy's `ext_authz` over HTTP, nginx's `auth_request`, Traefik's
 * ForwardAuth. They check the same as forwarded routes, and answer 200 with the caller's identity.
 */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { FastifyRequest } from "fastify";
import type { SignetServer } from "#http/types.ts";
import type { CheckingProxy } from "#config/edge-settings.ts";
import { routedTarget } from "./request-checks.ts";

/** The headers in which the other proxies name the method and the target; Envoy repeats the request's own. */
const NAMED_IN = {
  nginx: ["x-original-method", "x-original-uri"],
  traefik: ["x-forwarded-method", "x-forwarded-uri"],
} as const;
const METHOD = /^(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$/;
/** Tells Envoy which headers the upstream must not see. Other proxies ignore it. */
const TO_REMOVE = "x-envoy-auth-headers-to-remove";

/**
 * Returns the function that finds the target to check. It must be in its canonical form, because the proxy forwards it
 * as it is.
 */
export function checkedTarget(proxy: CheckingProxy): (request: IncomingMessage) => string {
  return (request) => {
    if (proxy !== "envoy") {
      const [method, target] = NAMED_IN[proxy].map((name) => request.headers[name]);
      request.method = typeof method === "string" && METHOD.test(method) ? method : "GET";
      request.url = request.method === method && typeof target === "string" ? target : "";
    }
    return routedTarget(request, { asItIs: true });
  };
}

export interface CheckedRoute {
  readonly methods: readonly string[];
  /** Path in the router's syntax. */
  readonly path: string;
  readonly config: object;
  /** Whether the upstream may see the token. */
  readonly forwardAuthorization: boolean;
  /** Returns the caller's signed identity. */
  readonly identityOf: (request: FastifyRequest) => IncomingHttpHeaders;
}

/** Registers routes that are checked only. A body is not read: proxies send none, or the start of one. */
export function registerCheckedRoutes(server: SignetServer, routes: readonly CheckedRoute[]): void {
  void server.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, payload, parsed) => {
      payload.resume();
      parsed(null);
    });
    for (const { methods, path, config, forwardAuthorization, identityOf } of routes) {
      scope.route({
        method: [...methods],
        url: path,
        exposeHeadRoute: false,
        config: { ...config, proxied: true },
        handler: (request, reply) => {
          reply.headers({
            ...identityOf(request),
            "cache-control": "no-store",
            ...(forwardAuthorization ? {} : { [TO_REMOVE]: "authorization" }),
          });
          void reply.send();
        },
      });
    }
    done();
  });
}
