/** `/.well-known/oauth-authorization-server` (RFC 8414). It lists only what works now. */
/** The scopes that our own routes require. Operators define further ones for their upstreams. */
const SCOPES_SUPPORTED: readonly string[] = [
  "compliance:read",
  "credentials:read",
  "credentials:revoke",
  "credentials:write",
  "events:publish",
  "events:publish_any",
  "events:read",
  "portal:sign_in",
  "ssf:manage",
  "ssf:read",
  "tokens:introspect",
  "webhooks:read",
  "webhooks:replay",
  "webhooks:write",
];

export interface MetadataOptions {
  readonly issuer: string;
  /** Whether clients can use mutual TLS. */
  readonly mutualTls: boolean;
  /** URL for mutual TLS, if it is not the issuer's. */
  readonly mutualTlsUrl?: string | undefined;
  /** Permitted algorithms of clients' assertions. */
  readonly assertionAlgorithms: readonly string[];
  /** Whether some tokens have a place in a status list. */
  readonly statusLists: boolean;
}

/** Returns the URL of the list of status lists below a base URL. */
export function statusListsUrl(baseUrl: string): string {
  return `${baseUrl}/.well-known/status-lists`;
}

/** Returns the URL of the token endpoint below a base URL. */
export function tokenEndpoint(baseUrl: string): string {
  return `${baseUrl}/v1/auth/token`;
}

/** Returns the endpoints' aliases at the URL that requests certificates (RFC 8705 section 5). */
function endpointAliases(baseUrl: string): Readonly<Record<string, string>> {
  return {
    token_endpoint: tokenEndpoint(baseUrl),
    revocation_endpoint: `${baseUrl}/v1/auth/revoke`,
    introspection_endpoint: `${baseUrl}/v1/auth/introspect`,
  };
}

/** Returns the metadata document of this issuer. */
export function authorizationServerMetadata(options: MetadataOptions): Readonly<Record<string, unknown>> {
  const { issuer, mutualTls, mutualTlsUrl, assertionAlgorithms, statusLists } = options;
  const methods = [
    "client_secret_post",
    "client_secret_basic",
    ...(mutualTls ? ["tls_client_auth"] : []),
    "private_key_jwt",
  ];
  return {
    issuer,
    token_endpoint: tokenEndpoint(issuer),
    revocation_endpoint: `${issuer}/v1/auth/revoke`,
    introspection_endpoint: `${issuer}/v1/auth/introspect`,
    jwks_uri: `${issuer}/.well-known/jwks.json`,
    scopes_supported: SCOPES_SUPPORTED,
    response_types_supported: [],
    grant_types_supported: ["client_credentials"],
    // Without its own members, an endpoint would have client_secret_basic alone (RFC 8414 section 2).
    ...Object.fromEntries(
      ["token", "revocation", "introspection"].flatMap((endpoint) => [
        [`${endpoint}_endpoint_auth_methods_supported`, methods],
        [`${endpoint}_endpoint_auth_signing_alg_values_supported`, assertionAlgorithms],
      ]),
    ),
    tls_client_certificate_bound_access_tokens: mutualTls,
    ...(mutualTls && mutualTlsUrl !== undefined
      ? { mtls_endpoint_aliases: endpointAliases(mutualTlsUrl) }
      : {}),
    // draft-ietf-oauth-status-list section 9.1.
    ...(statusLists ? { status_list_aggregation_endpoint: statusListsUrl(issuer) } : {}),
    service_documentation: `${issuer}/openapi.json`,
  };
}
