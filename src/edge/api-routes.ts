/**
 * The api's paths that the edge forwards: an allowlist of public and tenant paths, so that other paths stay internal.
 * The api checks its own scopes. The operators' listener is separate.
 */
import { canonicalTarget } from "./canonical-target.ts";
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
  "/v1/ssf/*",
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

/** Whether a request's target is one of these paths. A target that is not in its canonical form is none. */
export function isApiTarget(target: string): boolean {
  const [path = ""] = (canonicalTarget(target) ?? "").split("?", 1);
  return API_PATHS.some((pattern) =>
    pattern.endsWith("/*") ? path.startsWith(pattern.slice(0, -1)) : path === pattern,
  );
}

/** The largest body of the api: a batch of events, 4 MiB. */
export const API_BODY_LIMIT = 4_194_304;
