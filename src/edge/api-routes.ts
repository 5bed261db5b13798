/**
 * What of the api is reached through the edge: all that is public or tenants', by name, so that whatever else the api's
 * process serves one day stays where it is. The api checks its own scopes. The operators' listener is another one.
 */
import type { Segments } from "./route-pattern.ts";

const API_PATHS = [
  "/.well-known/*",
  "/docs",
  "/docs/*",
  "/errors/*",
  "/openapi.json",
  "/portal",
  "/portal/*",
  "/v1/auth/*",
  "/v1/compliance/*",
  "/v1/credentials",
  "/v1/credentials/*",
  "/v1/events",
  "/v1/events/*",
  "/v1/portal/*",
  "/v1/webhooks/*",
] as const;
/** Answered by the edge itself, or by nobody. */
const OWN_PATHS = ["/healthz", "/readyz", "/metrics", "/admin", "/admin/*"] as const;

export const API_ROUTES: readonly string[] = API_PATHS;

/** Paths that a route table cannot have. */
export const RESERVED: readonly Segments[] = [...API_PATHS, ...OWN_PATHS].map((path) =>
  path.slice(1).split("/"),
);

/** A larger body has no address at the api: a batch of events is the largest, 4 MiB. */
export const API_BODY_LIMIT = 4_194_304;
