/** Contract 2 and 4: client credentials become a signed JWT that is valid for 15 minutes. */
import { createRemoteJWKSet, jwtVerify } from "jose";
import { beforeAll, expect, test } from "vitest";
import { deployedApi } from "../support/deployed-api.ts";
import { bearer, grant, provision, type Provisioned } from "../support/factories.ts";

const api = deployedApi();
const SCOPES = ["inference:read", "pipeline:write"];
let client: Provisioned;

beforeAll(async () => {
  client = await provision(api, { scopes: SCOPES, region: "eu-west-1" });
});

test("a token carries tenant, role's scopes and region, is signed, and expires after 15 minutes", async () => {
  const answer = await api.token(grant(client));
  expect(answer).toMatchObject({ status: 200 });
  expect(answer.body).toMatchObject({ token_type: "Bearer", expires_in: 900, scope: SCOPES.join(" ") });
  expect(answer.headers.get("cache-control")).toBe("no-store");
  const { body: metadata } = await api.request("/.well-known/oauth-authorization-server");
  const keys = createRemoteJWKSet(new URL(String(metadata["jwks_uri"])));
  const { payload } = await jwtVerify(String(answer.body["access_token"]), keys, {
    issuer: api.publicUrl,
    audience: "signet",
    typ: "at+jwt",
    algorithms: ["ES256"],
  });
  expect(payload).toMatchObject({
    client_id: client.clientId,
    tenant: client.tenantId,
    scope: SCOPES.join(" "),
    region: "eu-west-1",
    cid: client.credentialId,
  });
  expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(900);
});

test.each([
  [
    "a wrong secret",
    () => ({ client_secret: `${client.clientSecret.slice(0, -1)}!` }),
    401,
    "INVALID_CLIENT",
  ],
  ["an unknown client", () => ({ client_id: "cl_000000000000000000000000" }), 401, "INVALID_CLIENT"],
  ["another grant", () => ({ grant_type: "password" }), 400, "UNSUPPORTED_GRANT_TYPE"],
  ["no secret", () => ({ client_secret: undefined }), 401, "INVALID_CLIENT"],
  ["a scope that the role lacks", () => ({ scope: "telemetry:export" }), 400, "INVALID_SCOPE"],
])("%s gets no token", async (_name, change, status, code) => {
  expect(await api.token(grant(client, change()))).toMatchObject({ status, body: { code } });
});

test("a token whose claims were changed is rejected by the api and by an edge", async () => {
  const { body } = await api.token(grant(client));
  const [header = "", payload = "", signature = ""] = String(body["access_token"]).split(".");
  const claims = JSON.parse(Buffer.from(payload, "base64url").toString()) as object;
  const forged = Buffer.from(JSON.stringify({ ...claims, scope: "webhooks:read" })).toString("base64url");
  const unsigned = Buffer.from('{"alg":"none","typ":"at+jwt"}').toString("base64url");
  for (const token of [`${header}.${forged}.${signature}`, `${unsigned}.${forged}.`, "x.y.z"]) {
    const headers = bearer(token);
    const rejected = { status: 401, body: { code: "TOKEN_INVALID" } };
    expect(await api.request("/v1/webhooks/endpoints", { headers })).toMatchObject(rejected);
    expect(await api.edge(0, "/v1/inference/x", { headers })).toMatchObject(rejected);
  }
  expect(await api.edge(0, "/v1/inference/x")).toMatchObject({
    status: 401,
    body: { code: "TOKEN_MISSING" },
  });
});
