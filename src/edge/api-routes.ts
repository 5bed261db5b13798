/**
 * The api's paths that the edge forwards: an allowlist of public and tenant paths, so that other paths stay internal.
 * The api checks its own scopes. The operators' listener is separate.
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
  "/v1/revocations",
  "/v1/usage",
  "/v1/webhooks/*",
] as const;
/** Served by the edge itself, or not at all. */
const OWN_PATHS = ["/healthz", "/readyz", "/metrics", "/admin", "/admin/*"] as const;

export const API_ROUTES: readonly string[] = API_PATHS;

/** Paths that a route table must not use. */
export const RESERVED: readonly Segments[] = [...API_PATHS, ...OWN_PATHS].map((path) =>
  path.slice(1).split("/"),
);

/** The largest body of the api: a batch of events, 4 MiB. */
export const API_BODY_LIMIT = 4_194_304;
