/** The OpenAPI texts of tokens, credentials and the compliance log. */
import type { OperationTexts } from "./operation.ts";

const text = { type: "string" } as const;

const ClientMembers = {
  client_id: { type: "string", examples: ["cl_7Hq2mVx9KcT4bYw8Rz3Nf6Pd"] },
  client_secret: { type: "string", description: "For `client_secret_post`; excludes other methods" },
  client_assertion: { type: "string", description: "For `private_key_jwt`: a JWT (RFC 7523)" },
  client_assertion_type: {
    type: "string",
    enum: ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"],
  },
} as const;

const TokenRequest = {
  type: "object",
  required: ["grant_type"],
  properties: {
    ...ClientMembers,
    grant_type: { type: "string", enum: ["client_credentials"] },
    scope: { type: "string", description: "A subset of the principal's scopes, separated by spaces" },
    resource: { type: "string", description: "The audience (RFC 8707)" },
  },
} as const;

const TokenQuestion = {
  type: "object",
  required: ["token"],
  properties: { ...ClientMembers, token: text, token_type_hint: text },
} as const;

const CREDENTIALS = {
  client_id: "cl_7Hq2mVx9KcT4bYw8Rz3Nf6Pd",
  client_secret: `sgn_live_sk_${"k".repeat(43)}0Zx81Q`,
};
const TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJleHAiOjE3NjM2NTA5MDB9.c2lnbmF0dXJl";

export const TOKEN_OPERATIONS: OperationTexts = {
  "POST /v1/auth/token": {
    id: "issueToken",
    summary: "Issue an access token",
    description:
      "OAuth 2.0 client credentials (RFC 6749 section 4.4), as JSON or as a form. The client authenticates with its secret in the body, HTTP Basic, a signed assertion or its certificate. The response contains a signed JWT that is valid for 15 minutes. When a rotation is due, `credential_rotation` holds the next secret: store it first, then use it.",
    errors: [
      "INVALID_CLIENT",
      "UNSUPPORTED_GRANT_TYPE",
      "INVALID_SCOPE",
      "INVALID_TARGET",
      "UNAUTHORIZED_CLIENT",
      "CLIENT_CERT_REQUIRED",
      "TENANT_SUSPENDED",
      "CLOCK_SKEWED",
    ],
    body: TokenRequest,
    requests: {
      "all scopes": { ...CREDENTIALS, grant_type: "client_credentials" },
      "fewer scopes": { ...CREDENTIALS, grant_type: "client_credentials", scope: "webhooks:read" },
    },
  },
  "POST /v1/auth/revoke": {
    id: "revokeToken",
    summary: "Revoke an access token",
    description:
      "RFC 7009, for the client's own tokens. The response is 200 whether or not the token exists. Every process rejects the token within 250 ms.",
    errors: ["INVALID_CLIENT", "CLIENT_CERT_REQUIRED"],
    body: TokenQuestion,
    requests: { token: { ...CREDENTIALS, token: TOKEN } },
  },
  "POST /v1/auth/introspect": {
    id: "introspectToken",
    summary: "Check whether an access token is active",
    description:
      "RFC 7662. A client may introspect its own tokens with its credentials. With the scope `tokens:introspect` it may introspect all tokens of its tenant.",
    errors: [
      "INVALID_CLIENT",
      "TOKEN_INVALID",
      "TOKEN_EXPIRED",
      "TOKEN_REVOKED",
      "CLIENT_CERT_REQUIRED",
      "CERT_BINDING_MISMATCH",
      "SCOPE_VIOLATION",
      "REVOCATION_STALE",
    ],
    body: TokenQuestion,
    requests: { token: { ...CREDENTIALS, token: TOKEN } },
    answered: { active: true, scope: "webhooks:read", client_id: CREDENTIALS.client_id, exp: 1_763_650_900 },
  },
  "GET /.well-known/oauth-authorization-server": {
    id: "authorizationServerMetadata",
    summary: "Read the authorization server's metadata",
    description: "RFC 8414: the URLs and capabilities of the endpoints. May be cached for an hour.",
    answer: {
      type: "object",
      required: ["issuer", "token_endpoint", "jwks_uri"],
      additionalProperties: true,
    },
    answered: {
      issuer: "https://signet.example",
      token_endpoint: "https://signet.example/v1/auth/token",
      jwks_uri: "https://signet.example/.well-known/jwks.json",
      grant_types_supported: ["client_credentials"],
    },
  },
  "GET /.well-known/jwks.json": {
    id: "jsonWebKeySet",
    summary: "Read the keys that tokens are signed with",
    description: "RFC 7517: public keys only. Look a key up by `kid`; if it is missing, read the set again.",
    answer: {
      type: "object",
      required: ["keys"],
      properties: { keys: { type: "array", items: { type: "object", additionalProperties: true } } },
    },
    answered: {
      keys: [{ kty: "EC", crv: "P-256", alg: "ES256", use: "sig", kid: "key_01jd3c5xq8m2v7k9r4t6w0zy" }],
    },
  },
  "GET /v1/credentials": {
    id: "listCredentials",
    summary: "List the tenant's credentials",
    description: "Newest first, including revoked credentials, without secrets.",
  },
  "POST /v1/credentials": {
    id: "createCredential",
    summary: "Create a credential, or a replacement",
    description:
      "Belongs to the caller's own principal unless `principal_id` names another. With `replaces`, the old credential stays valid for `overlap_seconds` and then ends. The secret is shown only in this response. With mutual TLS, a production principal needs `san_uri` or `certificate_thumbprints`.",
    errors: ["NOT_FOUND", "INVALID_STATE", "LIMIT_EXCEEDED"],
    requests: {
      "for the caller's principal": { san_uri: "spiffe://acme.example/billing" },
      "in place of another": { replaces: "crd_01jd3c5xq8m2v7k9r4t6w0zy", overlap_seconds: 86_400 },
    },
  },
  "GET /v1/credentials/{id}": {
    id: "getCredential",
    summary: "Read a credential with the versions of its secret",
    description:
      "The versions say which secret is in use and when the next rotation is due. `last_used_at` shows whether an old secret is still used.",
  },
  "PATCH /v1/credentials/{id}": {
    id: "updateCredential",
    summary: "Set whether a credential must sign its events",
    description:
      "With `signature_required`, only signed events of this credential are accepted. The credential needs a signing secret first.",
    errors: ["INVALID_STATE"],
    requests: { "signatures only": { signature_required: true } },
  },
  "POST /v1/credentials/{id}/revoke": {
    id: "revokeCredential",
    summary: "Revoke a credential everywhere at once",
    description:
      "For emergencies: one call, with an optional body. The credential gets no new tokens, and every edge rejects its existing tokens within 250 ms. The receipt says which processes have applied the revocation, and names its entry in the compliance log. A repeated request returns the same revocation.",
    requests: { "with a reason": { reason: "found in a public repository" } },
  },
  "GET /v1/credentials/{id}/signing-secret": {
    id: "listSigningSecrets",
    summary: "List the versions of a credential's signing secret",
    description: "Newest first, with fingerprints instead of values.",
  },
  "POST /v1/credentials/{id}/signing-secret": {
    id: "createSigningSecret",
    summary: "Create or replace a credential's signing secret",
    description:
      "A producer signs its requests with this secret, instead of using a token or in addition to one. The previous version stays valid for `overlap_seconds`.",
    errors: ["INVALID_STATE"],
    requests: { "with an hour of overlap": { overlap_seconds: 3_600 } },
  },
  "POST /v1/credentials/{id}/signing-secret/revoke": {
    id: "revokeSigningSecrets",
    summary: "Revoke a credential's signing secrets",
    description: "Revokes the version that `version` names; all versions by default.",
    errors: ["INVALID_STATE"],
    requests: { "one version": { version: 1, reason: "shown in a log" } },
  },
  "POST /v1/portal/links": {
    id: "createPortalLink",
    summary: "Create a one-time link to the portal",
    description: "The first person to open the link is signed in, with only the scopes that it names.",
    errors: ["SCOPE_VIOLATION"],
  },
  "GET /v1/compliance/entries": {
    id: "listComplianceEntries",
    summary: "List the tenant's entries of the compliance log",
    description: "Newest first; can be filtered by type and time. Entries are never changed or removed.",
  },
  "GET /v1/compliance/entries/{idx}": {
    id: "getComplianceEntry",
    summary: "Read an entry with the bytes that its hash covers",
    description: "The leaf hash is the SHA-256 of a zero byte followed by these bytes (RFC 6962).",
    answered: {
      index: 42,
      at: "2025-11-20T14:46:40.000Z",
      type: "credential.revoked",
      actor: "operator:opr_01jd3c5xq8m2v7k9r4t6w0zy",
      tenant_id: "ten_01jd3c5xq8m2v7k9r4t6w0zy",
      target: "crd_01jd3c5xq8m2v7k9r4t6w0zy",
      reason: "found in a public repository",
      request_id: "req_01jd3c5xq8m2v7k9r4t6w0zy",
      details: { sequence: 7 },
      leaf_hash: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
      entry: "eyJhdCI6IjIwMjUtMTEtMjBUMTQ6NDY6NDAuMDAwWiJ9",
    },
  },
  "GET /v1/compliance/checkpoint": {
    id: "getCheckpoint",
    summary: "Read the newest signed checkpoint",
    description:
      "A signed note (c2sp.org/tlog-checkpoint) over the whole log. With `Accept: text/plain`, returns the note alone.",
    errors: ["NOT_FOUND"],
  },
  "GET /v1/compliance/proof/inclusion": {
    id: "getInclusionProof",
    summary: "Prove that an entry is in a signed tree",
    description:
      "Returns the hashes from the leaf to the root (RFC 6962 section 2.1.1), for one of the tenant's entries.",
    errors: ["NOT_FOUND"],
  },
  "GET /v1/compliance/proof/consistency": {
    id: "getConsistencyProof",
    summary: "Prove that a signed tree extends an earlier one",
    description: "RFC 6962 section 2.1.2: no earlier entry has been changed since.",
    errors: ["NOT_FOUND"],
  },
};
