/** RFC 9068: the access token, checked over HTTP by jose and by hand with node:crypto. */
import { createHash, createPublicKey, type JsonWebKey, verify } from "node:crypto";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { beforeAll, expect, test } from "vitest";
import { useSharedApi } from "../support/api.ts";
import { accessToken, grant, provision, type Provisioned } from "../support/factories.ts";

const api = useSharedApi();
let client: Provisioned;
let token: string;

beforeAll(async () => {
  client = await provision(api, { scopes: ["inference:read", "pipeline:write"], region: "eu-west-1" });
  token = await accessToken(api, client);
});

const part = (index: number): Record<string, unknown> =>
  JSON.parse(Buffer.from(token.split(".")[index] ?? "", "base64url").toString()) as Record<string, unknown>;

test("a third-party library verifies the token with the published keys alone", async () => {
  const { body: metadata } = await api.request("/.well-known/oauth-authorization-server");
  const keys = createRemoteJWKSet(new URL(String(metadata["jwks_uri"])));
  const { payload } = await jwtVerify(token, keys, {
    issuer: String(metadata["issuer"]),
    audience: "signet",
    typ: "at+jwt",
    algorithms: ["ES256"],
    requiredClaims: ["iss", "exp", "aud", "sub", "client_id", "iat", "jti"],
  });
  expect(payload["client_id"]).toBe(client.clientId);
});

test("node:crypto verifies the signature and rejects it with one bit changed", async () => {
  const { body } = await api.request("/.well-known/jwks.json");
  const [jwk] = body["keys"] as JsonWebKey[];
  const [header = "", payload = "", signature = ""] = token.split(".");
  const key = { key: createPublicKey({ key: jwk ?? {}, format: "jwk" }), dsaEncoding: "ieee-p1363" } as const;
  const bytes = Buffer.from(signature, "base64url");
  expect(verify("sha256", Buffer.from(`${header}.${payload}`), key, bytes)).toBe(true);
  bytes[10] = (bytes[10] ?? 0) ^ 1;
  expect(verify("sha256", Buffer.from(`${header}.${payload}`), key, bytes)).toBe(false);
});

test("the header names the type and a key by its RFC 7638 thumbprint", async () => {
  const { body } = await api.request("/.well-known/jwks.json");
  const [jwk] = body["keys"] as Record<string, string>[];
  const { crv, kty, x, y } = jwk ?? {};
  const thumbprint = createHash("sha256").update(JSON.stringify({ crv, kty, x, y })).digest("base64url");
  expect(part(0)).toEqual({ alg: "ES256", typ: "at+jwt", kid: thumbprint });
});

test("the claims are exactly the specified ones", () => {
  const claims = part(1);
  const issuedAt = Number(claims["iat"]);
  expect(claims).toEqual({
    iss: api.publicUrl,
    sub: client.clientId,
    aud: "signet",
    client_id: client.clientId,
    scope: "inference:read pipeline:write",
    jti: expect.stringMatching(/^[A-Za-z0-9_-]{22}$/),
    iat: issuedAt,
    nbf: issuedAt,
    exp: issuedAt + 900,
    tenant: client.tenantId,
    region: "eu-west-1",
    prn: client.principalId,
    cid: client.credentialId,
    cv: 1,
  });
});

test("the token names the requested scopes, and every token is different", async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, async () => await api.token(grant(client, { scope: "inference:read" }))),
  );
  const tokens = answers.map(({ body }) => String(body["access_token"]));
  const claims = tokens.map(
    (text) =>
      JSON.parse(Buffer.from(text.split(".")[1] ?? "", "base64url").toString()) as Record<string, string>,
  );
  expect(new Set(claims.map(({ jti }) => jti)).size).toBe(20);
  expect(new Set(claims.map(({ scope }) => scope))).toEqual(new Set(["inference:read"]));
});
