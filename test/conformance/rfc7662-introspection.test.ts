/** RFC 7662: authorized callers see a live token's claims; any other token is inactive. */
import { beforeEach, expect, test } from "vitest";
import { type Answer, useTestApi } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import { accessToken, bearer, grant, provision, type Provisioned } from "../support/factories.ts";

const api = useTestApi({ environment: { SIGNET_TOKEN_RATE_PER_ADDRESS: "10000" } });
let client: Provisioned;
let token: string;
/** Creates a resource server of the same tenant. */
let resource: Provisioned;

beforeEach(async () => {
  client = await provision(api, { scopes: ["credentials:read", "inference:read"] });
  token = await accessToken(api, client);
  resource = await provision(api, { tenantId: client.tenantId, scopes: ["tokens:introspect"] });
});

type Parameters = Readonly<Record<string, string>>;

async function introspect(parameters: Parameters, headers: Parameters = {}): Promise<Answer> {
  return await api.request("/v1/auth/introspect", {
    method: "POST",
    headers,
    body: new URLSearchParams(parameters),
  });
}

const credentialsOf = ({ clientId, clientSecret }: Provisioned): Parameters => ({
  client_id: clientId,
  client_secret: clientSecret,
});

async function asResource(subject: string): Promise<Answer> {
  return await introspect({ token: subject }, bearer(await accessToken(api, resource)));
}

function expectInactive(answer: Answer): void {
  expect({ status: answer.status, text: answer.text }).toEqual({ status: 200, text: '{"active":false}' });
}

test("a live token is active, with its claims, for its own client and the tenant's introspectors", async () => {
  for (const answer of [await introspect({ token, ...credentialsOf(client) }), await asResource(token)]) {
    expect(answer.status).toBe(200);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(answer.body).toMatchObject({
      active: true,
      token_type: "Bearer",
      scope: "credentials:read inference:read",
      client_id: client.clientId,
      sub: client.clientId,
      iss: api.publicUrl,
      aud: "signet",
      tenant: client.tenantId,
      prn: client.principalId,
      cid: client.credentialId,
      exp: expect.any(Number) as number,
      iat: expect.any(Number) as number,
      jti: expect.any(String) as string,
    });
  }
});

test("a revoked token is inactive, whatever was revoked", async () => {
  await api.admin("POST", `/credentials/${client.credentialId}/revoke`);
  await eventually(async () => (await asResource(token)).body["active"] === false, "the revocation");
  expectInactive(await asResource(token));
});

test("an expired token is inactive", async () => {
  api.clock.advance(906_000);
  expectInactive(await asResource(token));
  expectInactive(await introspect({ token, ...credentialsOf(client) }));
});

test.each(["x", "a.b.c", "eyJhbGciOiJub25lIn0.e30."])(
  "a string that is not our token, such as %s, is inactive",
  async (text) => {
    expectInactive(await asResource(text));
    expectInactive(await introspect({ token: text, ...credentialsOf(client) }));
  },
);

test("another tenant's token is inactive, and so is another client's token to a plain client", async () => {
  const stranger = await provision(api);
  expectInactive(await asResource(await accessToken(api, stranger)));
  expectInactive(await introspect({ token, ...credentialsOf(stranger) }));
  expectInactive(await introspect({ token, ...credentialsOf(resource) }));
});

test("a caller without the scope is rejected with the challenge of RFC 6750", async () => {
  const answer = await introspect({ token }, bearer(token));
  expect(answer).toMatchObject({
    status: 403,
    body: { error: "insufficient_scope", code: "SCOPE_VIOLATION" },
  });
  expect(answer.headers.get("www-authenticate")).toBe(
    'Bearer realm="service", error="insufficient_scope", scope="tokens:introspect"',
  );
});

test("a caller whose own token is revoked learns nothing", async () => {
  const caller = await accessToken(api, resource);
  await api.admin("POST", `/credentials/${resource.credentialId}/revoke`);
  const refused = await eventually(async () => {
    const answer = await introspect({ token }, bearer(caller));
    return answer.status === 401 ? answer : undefined;
  }, "the revocation");
  expect(refused.body).toMatchObject({ error: "invalid_token", code: "TOKEN_REVOKED" });
});

test.each([
  ["nobody", () => ({ parameters: { token } }), "invalid_client"],
  [
    "a wrong secret",
    () => ({ parameters: { ...credentialsOf(client), token, client_secret: "x" } }),
    "invalid_client",
  ],
  ["no token", () => ({ parameters: credentialsOf(client) }), "invalid_request"],
  ["a forged Bearer token", () => ({ parameters: { token }, headers: bearer("a.b.c") }), "invalid_token"],
] as const)(
  "a request with %s is rejected",
  async (_name, request: () => { parameters: Parameters; headers?: Parameters }, error) => {
    const { parameters, headers } = request();
    expect(await introspect(parameters, headers)).toMatchObject({
      status: error === "invalid_request" ? 400 : 401,
      body: { error },
    });
  },
);

test("a request with two authentication methods is rejected", async () => {
  const caller = bearer(await accessToken(api, resource));
  for (const second of [credentialsOf(client), { client_assertion: "a.b.c" }]) {
    expect(await introspect({ token, ...second }, caller)).toMatchObject({
      status: 400,
      body: { error: "invalid_request" },
    });
  }
});

test("introspecting one token does not prevent the client from getting another", async () => {
  await introspect({ token, ...credentialsOf(client) });
  expect(await api.token(grant(client))).toMatchObject({ status: 200 });
});
