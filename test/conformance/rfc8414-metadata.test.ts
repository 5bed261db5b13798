/** RFC 8414: the metadata's claims, checked against the service's behaviour. RFC 7517: the key set. */
import { expect, test } from "vitest";
import { useSharedApi } from "../support/api.ts";

const api = useSharedApi();
const METHODS = ["client_secret_post", "client_secret_basic", "private_key_jwt"];

test("the metadata lists working features under the issuer that it names", async () => {
  const answer = await api.request("/.well-known/oauth-authorization-server");
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
  expect(answer.body).toMatchObject({
    issuer: api.publicUrl,
    token_endpoint: `${api.publicUrl}/v1/auth/token`,
    revocation_endpoint: `${api.publicUrl}/v1/auth/revoke`,
    introspection_endpoint: `${api.publicUrl}/v1/auth/introspect`,
    jwks_uri: `${api.publicUrl}/.well-known/jwks.json`,
    response_types_supported: [],
    grant_types_supported: ["client_credentials"],
    token_endpoint_auth_methods_supported: METHODS,
    // Section 2: without them, each would mean client_secret_basic alone.
    revocation_endpoint_auth_methods_supported: METHODS,
    introspection_endpoint_auth_methods_supported: METHODS,
  });
  // Section 2: each is required with private_key_jwt.
  for (const endpoint of ["token", "revocation", "introspection"]) {
    expect(answer.body[`${endpoint}_endpoint_auth_signing_alg_values_supported`]).toEqual(
      expect.arrayContaining(["ES256", "PS256", "EdDSA"]),
    );
  }
});

test("every address in the metadata exists", async () => {
  const { body } = await api.request("/.well-known/oauth-authorization-server");
  const addresses = Object.entries(body).filter(([name]) => /_endpoint$|_uri$|_documentation$/.test(name));
  expect(addresses.length).toBeGreaterThanOrEqual(3);
  for (const [name, address] of addresses) {
    const response = await fetch(String(address), { method: name.endsWith("_endpoint") ? "POST" : "GET" });
    expect({ name, status: response.status }).not.toMatchObject({ status: 404 });
  }
});

test("scopes_supported lists the scopes that routes require", async () => {
  const { body: metadata } = await api.request("/.well-known/oauth-authorization-server");
  const { body: openapi } = await api.request("/openapi.json");
  const paths = Object.values(
    openapi["paths"] as Record<string, Record<string, { security?: { bearer?: string[] }[] }>>,
  );
  const asked = paths.flatMap((path) =>
    Object.values(path).flatMap((operation) =>
      (operation.security ?? []).flatMap(({ bearer = [] }) => bearer),
    ),
  );
  // Handlers check these: for a body member, and where other ways to authenticate exist.
  const inside = ["events:publish_any", "tokens:introspect"];
  expect(metadata["scopes_supported"]).toEqual([...new Set([...asked, ...inside])].sort());
});

test("the key set has public members only and is cacheable for as long as keys are published in advance", async () => {
  const answer = await api.request("/.well-known/jwks.json");
  const keys = answer.body["keys"] as Record<string, string>[];
  expect(answer.headers.get("cache-control")).toBe("public, max-age=300");
  // One of access tokens, and one of security events.
  expect(keys).toHaveLength(2);
  for (const key of keys) {
    expect(Object.keys(key).sort()).toEqual(["alg", "crv", "kid", "kty", "use", "x", "y"]);
    expect(key).toMatchObject({ kty: "EC", crv: "P-256", alg: "ES256", use: "sig" });
  }
});
