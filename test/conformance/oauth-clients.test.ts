/** Two third-party OAuth clients find the service by its metadata and get tokens from it. */
import * as oauth from "oauth4webapi";
import * as openid from "openid-client";
import { beforeAll, describe, expect, test } from "vitest";
import { readAnswer, unlessStale } from "../support/answer.ts";
import { useSharedApi } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import { bearer, provision, type Provisioned } from "../support/factories.ts";

const api = useSharedApi();
const SCOPES = ["credentials:read", "webhooks:read"];
/** Development listens on plain HTTP, which both clients accept only if configured to. */
const INSECURE = { [oauth.allowInsecureRequests]: true };

let client: Provisioned;

beforeAll(async () => {
  client = await provision(api, { scopes: SCOPES });
});

async function expectToken(token: string, scope: string): Promise<void> {
  const answer = await api.request("/v1/credentials", { headers: bearer(token) });
  expect(answer.status).toBe(scope.includes("credentials:read") ? 200 : 403);
}

describe("openid-client", () => {
  const discover = async (authentication: openid.ClientAuth): Promise<openid.Configuration> =>
    await openid.discovery(new URL(api.publicUrl), client.clientId, undefined, authentication, {
      algorithm: "oauth2",
      execute: [openid.allowInsecureRequests],
    });

  test.each([
    ["client_secret_basic", openid.ClientSecretBasic],
    ["client_secret_post", openid.ClientSecretPost],
  ])("gets a token with %s", async (_method, authentication) => {
    const configuration = await discover(authentication(client.clientSecret));
    const tokens = await openid.clientCredentialsGrant(configuration);
    expect(tokens).toMatchObject({ token_type: "bearer", expires_in: 900, scope: SCOPES.join(" ") });
    await expectToken(tokens.access_token, SCOPES.join(" "));
  });

  test("gets a token for a subset of the scopes", async () => {
    const configuration = await discover(openid.ClientSecretBasic(client.clientSecret));
    const tokens = await openid.clientCredentialsGrant(configuration, { scope: "webhooks:read" });
    expect(tokens.scope).toBe("webhooks:read");
    await expectToken(tokens.access_token, "webhooks:read");
  });

  test("calls the API with its token", async () => {
    const configuration = await discover(openid.ClientSecretPost(client.clientSecret));
    const { access_token: token } = await openid.clientCredentialsGrant(configuration);
    const url = new URL("/v1/credentials", api.publicUrl);
    const { status } = await unlessStale(
      async () => await readAnswer(await openid.fetchProtectedResource(configuration, token, url, "GET")),
    );
    expect(status).toBe(200);
  });

  test("revokes its token (RFC 7009), after which introspection reports it inactive (RFC 7662)", async () => {
    const configuration = await discover(openid.ClientSecretPost(client.clientSecret));
    const { access_token: token } = await openid.clientCredentialsGrant(configuration);
    expect(await openid.tokenIntrospection(configuration, token)).toMatchObject({
      active: true,
      client_id: client.clientId,
      scope: SCOPES.join(" "),
    });
    await openid.tokenRevocation(configuration, token);
    await eventually(
      async () => !(await openid.tokenIntrospection(configuration, token)).active,
      "the revocation",
    );
    const answer = await api.request("/v1/credentials", { headers: bearer(token) });
    expect(answer).toMatchObject({ status: 401, body: { code: "TOKEN_REVOKED" } });
  });

  test.each([
    ["a wrong secret", {}, "invalid_client", 401],
    ["a scope that the client does not have", { scope: "webhooks:write" }, "invalid_scope", 400],
    ["an unknown resource", { resource: "https://elsewhere.example" }, "invalid_target", 400],
  ])("understands the error for %s", async (_name, parameters, error, status) => {
    const secret = error === "invalid_client" ? `${client.clientSecret.slice(0, -1)}_` : client.clientSecret;
    const configuration = await discover(openid.ClientSecretPost(secret));
    await expect(openid.clientCredentialsGrant(configuration, parameters)).rejects.toMatchObject({
      error,
      status,
    });
  });

  test("understands the challenge for a wrong secret in the Authorization header", async () => {
    const configuration = await discover(openid.ClientSecretBasic(`${client.clientSecret.slice(0, -1)}_`));
    await expect(openid.clientCredentialsGrant(configuration)).rejects.toMatchObject({
      code: "OAUTH_WWW_AUTHENTICATE_CHALLENGE",
      status: 401,
      cause: [{ scheme: "basic" }],
    });
  });
});

describe("oauth4webapi", () => {
  async function discover(): Promise<oauth.AuthorizationServer> {
    const issuer = new URL(api.publicUrl);
    const response = await oauth.discoveryRequest(issuer, { ...INSECURE, algorithm: "oauth2" });
    return await oauth.processDiscoveryResponse(issuer, response);
  }

  async function grant(authentication: oauth.ClientAuth, parameters: Record<string, string> = {}) {
    const server = await discover();
    const request = oauth.clientCredentialsGrantRequest;
    const who = { client_id: client.clientId };
    const response = await request(server, who, authentication, parameters, INSECURE);
    return await oauth.processClientCredentialsResponse(server, who, response);
  }

  test.each([
    ["client_secret_basic", oauth.ClientSecretBasic],
    ["client_secret_post", oauth.ClientSecretPost],
  ])("gets a token with %s", async (_method, authentication) => {
    const tokens = await grant(authentication(client.clientSecret), { scope: "credentials:read" });
    expect(tokens).toMatchObject({ token_type: "bearer", expires_in: 900, scope: "credentials:read" });
    await expectToken(tokens.access_token, "credentials:read");
  });

  test("accepts the token as an RFC 9068 JWT access token, by the published keys", async () => {
    const server = await discover();
    const { access_token: token } = await grant(oauth.ClientSecretBasic(client.clientSecret));
    const request = new Request("http://resource.example/", { headers: bearer(token) });
    const claims = await oauth.validateJwtAccessToken(server, request, "signet", INSECURE);
    expect(claims).toMatchObject({ iss: api.publicUrl, client_id: client.clientId, sub: client.clientId });
  });

  test("revokes its token and introspects it", async () => {
    const server = await discover();
    const who = { client_id: client.clientId };
    const authentication = oauth.ClientSecretBasic(client.clientSecret);
    const { access_token: token } = await grant(authentication);
    const isActive = async (): Promise<boolean> => {
      const response = await oauth.introspectionRequest(server, who, authentication, token, INSECURE);
      return (await oauth.processIntrospectionResponse(server, who, response)).active;
    };
    expect(await isActive()).toBe(true);
    const response = await oauth.revocationRequest(server, who, authentication, token, INSECURE);
    expect(await oauth.processRevocationResponse(response)).toBeUndefined();
    await eventually(async () => !(await isActive()), "the revocation");
  });

  test("understands an OAuth error", async () => {
    const refused = grant(oauth.ClientSecretPost(client.clientSecret), { scope: "webhooks:write" });
    await expect(refused).rejects.toMatchObject({ error: "invalid_scope", status: 400 });
  });
});
