/** The HTTP routes of the OAuth endpoints and documents; src/tokens/oauth implements them. */
import { Type } from "typebox";
import { SignetError } from "../../domain/errors.ts";
import { JWKS_MAX_AGE_SECONDS, jsonWebKeySet } from "../../tokens/oauth/jwks.ts";
import type { KeyStore } from "../../tokens/signing-keys/key-store.ts";
import { authorizationServerMetadata, type MetadataOptions } from "../../tokens/oauth/metadata.ts";
import { OAUTH_HEADERS } from "../../http/oauth-error.ts";
import { issueToken, type TokenServices } from "../../tokens/oauth/token.ts";
import type { ScopeGuard } from "../../tokens/guards/authentication.ts";
import {
  ANY_ORIGIN,
  makeJsonDocument,
  onceMade,
  type PublicDocument,
  sendDocument,
} from "../../http/public-document.ts";
import type { SignetServer } from "../../http/types.ts";
import { AnyQuery, OAUTH_BODY_LIMIT, tokenRequest } from "./oauth-requests.ts";
import { registerTokenStatusRoutes, type TokenStatusServices } from "./token-status.ts";

export interface OAuthServices extends TokenServices, MetadataOptions {
  readonly keys: Omit<KeyStore, "close">;
}

const TokenResponse = Type.Object({
  access_token: Type.String(),
  token_type: Type.Literal("Bearer"),
  expires_in: Type.Integer(),
  scope: Type.String(),
  token: Type.String({ description: "The same JWT as access_token" }),
  credential_rotation: Type.Optional(
    Type.Object(
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
    {
      config: { public: true, rawBody: true },
      bodyLimit: OAUTH_BODY_LIMIT,
      schema: { tags: ["tokens"], querystring: AnyQuery, response: { 200: TokenResponse } },
    },
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

  const metadata = onceMade(() => makeJsonDocument(authorizationServerMetadata(services)));
  server.get(
    "/.well-known/oauth-authorization-server",
    { config: { public: true }, schema: { tags: ["tokens"] } },
    (request, reply) =>
      void sendDocument(request, reply, metadata(), {
        ...ANY_ORIGIN,
        "cache-control": "public, max-age=3600",
      }),
  );
  const keySet = createKeySetDocument(services.keys);
  server.get(
    "/.well-known/jwks.json",
    { config: { public: true }, schema: { tags: ["tokens"] } },
    (request, reply) =>
      void sendDocument(request, reply, keySet(), {
        ...ANY_ORIGIN,
        "cache-control": `public, max-age=${JWKS_MAX_AGE_SECONDS}`,
      }),
  );
}

/** Creates a function that returns the key set as a document, rebuilt only if the published keys change. */
function createKeySetDocument(keys: OAuthServices["keys"]): () => PublicDocument {
  let made: { readonly kids: string; readonly document: PublicDocument } | undefined;
  return () => {
    const kids = keys
      .publicKeys()
      .map(({ kid }) => kid)
      .join();
    if (made?.kids !== kids) {
      made = { kids, document: makeJsonDocument(jsonWebKeySet(keys)) };
    }
    return made.document;
  };
}
