import type { FastifyRequest } from "fastify";
import { nothingHere, SignetError } from "#domain/errors.ts";
import { requestPath } from "../problem.ts";
import type { SignetServer } from "../types.ts";

/** Returns the methods of the routes that match a path, which a 405 response must list (RFC 9110 section 15.5.6). */
export type AllowedMethods = (path: string) => readonly string[];

declare module "fastify" {
  interface FastifyInstance {
    readonly allowedMethods: AllowedMethods;
  }
}

/** Returns what failed. The framework asks some methods for a body, such as QUERY, before it looks for a route. */
export function failureOfRequest(thrown: unknown, request: FastifyRequest): unknown {
  return request.is404 && !(thrown instanceof SignetError) ? noRouteOf(request) : thrown;
}

/** Returns the error for a request without a route. */
export function noRouteOf(request: FastifyRequest): SignetError {
  return noSuchRoute(requestPath(request), request.server.allowedMethods);
}

/** Returns the error for an unknown path or an unsupported method. */
export function noSuchRoute(path: string, allowed: AllowedMethods): SignetError {
  const methods = allowed(path);
  if (methods.length === 0) {
    return nothingHere();
  }
  return new SignetError("METHOD_NOT_ALLOWED", {
    detail: `This path supports only ${methods.join(", ")}.`,
    headers: { allow: methods.join(", ") },
  });
}

/** Collects the routes registered after this call, for `server.allowedMethods`. */
export function collectAllowedMethods(server: SignetServer): void {
  const addresses = new Map<string, { readonly pattern: RegExp; readonly methods: Set<string> }>();
  server.addHook("onRoute", (route) => {
    const pattern = route.url
      .replaceAll(/[.+?^${}()|[\]\\]/g, "\\$&")
      .replaceAll("*", ".*")
      .replaceAll(/:[A-Za-z_]+/g, "[^/]+");
    const address = addresses.get(route.url) ?? {
      pattern: new RegExp(`^${pattern}$`),
      methods: new Set<string>(),
    };
    for (const method of [route.method].flat()) {
      address.methods.add(method);
    }
    addresses.set(route.url, address);
  });
  server.decorate("allowedMethods", (path: string) => {
    // A literal path has precedence over one with a parameter, like /dlq/replay over /dlq/:id.
    const exact = addresses.get(path);
    const matches =
      exact === undefined ? [...addresses.values()].filter(({ pattern }) => pattern.test(path)) : [exact];
    return [...new Set(matches.flatMap(({ methods }) => [...methods]))].sort();
  });
}
