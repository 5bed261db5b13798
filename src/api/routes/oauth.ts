/** The HTTP routes of the OAuth endpoints and documents; src/tokens/oauth implements them. */
import { Resource } from "#http/common.ts";
import { Type } from "typebox";
import { SignetError } from "#domain/errors.ts";
import { TOKEN_LIFETIME_MINUTES } from "#domain/identity.ts";
import { JWKS_MAX_AGE_SECONDS, jsonWebKeySet } from "#tokens/oauth/jwks.ts";
import type { KeyStore } from "#tokens/signing-keys/key-store.ts";
import { authorizationServerMetadata, type MetadataOptions } from "#tokens/oauth/metadata.ts";
import { OAUTH_HEADERS } from "#http/oauth-error.ts";
import { issueToken, type TokenServices } from "#tokens/oauth/token.ts";
import type { ScopeGuard } from "#tokens/guards/authentication.ts";
import {
  ANY_ORIGIN,
  makeJsonDocument,
  onceMade,
  type PublicDocument,
  sendDocument,
} from "#http/public-document.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { DOCUMENTED_TOKEN_REQUEST, EXAMPLE_CLIENT, OAUTH_ENDPOINT, tokenRequest } from "./oauth-requests.ts";
import { registerTokenStatusRoutes, type TokenStatusServices } from "./token-status.ts";

export interface OAuthServices extends TokenServices, MetadataOptions {
  /** Returns the keys that verify access tokens, status lists and security events. */
  readonly publicKeys: KeyStore["publicKeys"];
}

const TokenResponse = Resource("Token", {
  access_token: Type.String(),
  token_type: Type.Literal("Bearer"),
  expires_in: Type.Integer(),
  scope: Type.String(),
  token: Type.String({ description: "The same JWT as access_token" }),
  credential_rotation: Type.Optional(
    Resource(
      "CredentialRotation",
      {
        credential_id: Type.String(),
        version: Type.Integer(),
        client_secret: Type.String(),
        predecessor_retires_by: Type.String(),
      },
      {
        description: "The next secret: store it first, then use it; its first use retires the current secret",
      },
    ),
  ),
});

function registerTokenRoute(server: SignetServer, services: OAuthServices): void {
  server.post(
    "/v1/auth/token",
    operation({
      ...OAUTH_ENDPOINT,
      id: "issueToken",
      sdk: { none: "A client gets its tokens itself." },
      summary: "Issue an access token",
      description: `OAuth 2.0 client credentials (RFC 6749 section 4.4), as JSON or as a form. The client authenticates with its secret in the body, HTTP Basic, a signed assertion or its certificate. The response contains a signed JWT that is valid for ${TOKEN_LIFETIME_MINUTES} minutes. When a rotation is due, \`credential_rotation\` holds the next secret: store it first, then use it.`,
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
      documentedBody: DOCUMENTED_TOKEN_REQUEST,
      requestExamples: {
        "all scopes": { ...EXAMPLE_CLIENT, grant_type: "client_credentials" },
        "fewer scopes": { ...EXAMPLE_CLIENT, grant_type: "client_credentials", scope: "webhooks:read" },
      },
      response: { 200: TokenResponse },
    }),
    async (request, reply) => {
      const response = await issueToken(tokenRequest(request), services);
      reply.headers(OAUTH_HEADERS);
      return response;
    },
  );
}

/**
 * Registers the token, revocation and introspection endpoints, the metadata and the key set.
 *
 * @param guard scope guard, for the endpoint that also accepts other authentication methods
 */
export function registerOAuthRoutes(
  server: SignetServer,
  services: OAuthServices & TokenStatusServices,
  guard: ScopeGuard,
): void {
  // A separate plugin scope: these endpoints also parse forms, from the raw bytes of the body.
  server.register((child, _options, done) => {
    child.removeAllContentTypeParsers();
    child.addContentTypeParser(
      ["application/json", "application/x-www-form-urlencoded"],
      { parseAs: "buffer" },
      (_request, body, parsed) => parsed(null, body),
    );
    child.addContentTypeParser("*", () => {
      throw new SignetError("UNSUPPORTED_MEDIA_TYPE", {
        detail: "The body must be application/json or application/x-www-form-urlencoded.",
      });
    });
    registerTokenRoute(child, services);
    registerTokenStatusRoutes(child, services, guard);
    done();
  });
  registerDocuments(server, services);
}

/** Registers the metadata and the key set. */
function registerDocuments(server: SignetServer, services: OAuthServices): void {
  const metadata = onceMade(() => makeJsonDocument(authorizationServerMetadata(services)));
  server.get(
    "/.well-known/oauth-authorization-server",
    operation({
      id: "authorizationServerMetadata",
      sdk: { none: "A client knows the addresses." },
      tag: "tokens",
      home: true,
      public: true,
      summary: "Read the authorization server's metadata",
      description: "RFC 8414: the URLs and capabilities of the endpoints. May be cached for an hour.",
      documentedResponse: {
        "x-name": "AuthorizationServerMetadata",
        type: "object",
        required: ["issuer", "token_endpoint", "jwks_uri"],
        additionalProperties: true,
      },
      responseExample: {
        issuer: "https://signet.example",
        token_endpoint: "https://signet.example/v1/auth/token",
        jwks_uri: "https://signet.example/.well-known/jwks.json",
        grant_types_supported: ["client_credentials"],
      },
    }),
    (request, reply) =>
      void sendDocument(request, reply, metadata(), {
        ...ANY_ORIGIN,
        "cache-control": "public, max-age=3600",
      }),
  );
  const keySet = createKeySetDocument(services.publicKeys);
  server.get(
    "/.well-known/jwks.json",
    operation({
      id: "jsonWebKeySet",
      sdk: { none: "Verifiers of access tokens read it, with a library for JWT." },
      tag: "tokens",
      home: true,
      public: true,
      summary: "Read the keys that tokens are signed with",
      description:
        "RFC 7517: public keys only. Look a key up by `kid`; if it is missing, read the set again.",
      documentedResponse: {
        "x-name": "JsonWebKeySet",
        type: "object",
        required: ["keys"],
        properties: { keys: { type: "array", items: { type: "object", additionalProperties: true } } },
      },
      responseExample: {
        keys: [{ kty: "EC", crv: "P-256", alg: "ES256", use: "sig", kid: "key_01jd3c5xq8m2v7k9r4t6w0zy" }],
      },
    }),
    (request, reply) =>
      void sendDocument(request, reply, keySet(), {
        ...ANY_ORIGIN,
        "cache-control": `public, max-age=${JWKS_MAX_AGE_SECONDS}`,
      }),
  );
}

/** Creates a function that returns the key set as a document, rebuilt only if the published keys change. */
function createKeySetDocument(publicKeys: KeyStore["publicKeys"]): () => PublicDocument {
  let made: { readonly kids: string; readonly document: PublicDocument } | undefined;
  return () => {
    const keys = publicKeys();
    const kids = keys.map(({ kid }) => kid).join();
    if (made?.kids !== kids) {
      made = { kids, document: makeJsonDocument(jsonWebKeySet(keys)) };
    }
    return made.document;
  };
}
