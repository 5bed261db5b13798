/** `/.well-known/oauth-authorization-server` (RFC 8414): what works now, nothing that is planned. */

/** The scopes that routes of ours ask for; operators name further ones for their own upstreams. */
const SCOPES_SUPPORTED: readonly string[] = [
  "credentials:read",
  "events:publish",
  "events:publish_any",
  "events:read",
  "webhooks:read",
  "webhooks:replay",
  "webhooks:write",
];

/** The metadata document of this issuer. */
export function authorizationServerMetadata(issuer: string): Readonly<Record<string, unknown>> {
  return {
    issuer,
    token_endpoint: `${issuer}/v1/auth/token`,
    jwks_uri: `${issuer}/.well-known/jwks.json`,
    scopes_supported: SCOPES_SUPPORTED,
    response_types_supported: [],
    grant_types_supported: ["client_credentials"],
    token_endpoint_auth_methods_supported: ["client_secret_post", "client_secret_basic"],
    service_documentation: `${issuer}/openapi.json`,
  };
}
