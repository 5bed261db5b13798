/** Contract 5.1: connections are terminated with mutual TLS, and a token is bound to its client's certificate. */
import { decodeJwt } from "jose";
import { beforeAll, expect, test } from "vitest";
import { thumbprint, x5t } from "../support/certificates.ts";
import { deployedApi } from "../support/deployed-api.ts";
import { bearer, grant, provision, type Provisioned } from "../support/factories.ts";

const api = deployedApi();
const { first, second, rogue } = api.deployment.clients;
let client: Provisioned;

beforeAll(async () => {
  client = await provision(api, { scopes: ["inference:read", "webhooks:read"] });
});

const rejected = { status: 401, body: { code: "CLIENT_CERT_REQUIRED" } };

test("the token endpoint requires a trusted client certificate", async () => {
  const json = grant(client);
  expect(await api.overTls("/v1/auth/token", { json, pair: undefined })).toMatchObject(rejected);
  expect(await api.overTls("/v1/auth/token", { json, pair: rogue })).toMatchObject(rejected);
  expect(await api.overTls("/v1/auth/token", { json })).toMatchObject({ status: 200 });
});

test("a token is bound to the certificate with which it was requested, at the api and at both edges", async () => {
  const { body } = await api.overTls("/v1/auth/token", { json: grant(client) });
  const token = String(body["access_token"]);
  expect(decodeJwt(token)).toMatchObject({ cnf: { "x5t#S256": x5t(first) } });
  const headers = bearer(token);
  const ways = [
    async (pair: typeof first | undefined) => await api.overTls("/v1/webhooks/endpoints", { headers, pair }),
    ...[0, 1].map(
      (edge) => async (pair: typeof first | undefined) =>
        await api.edge(edge, "/v1/inference/x", { headers, pair }),
    ),
  ];
  for (const send of ways) {
    expect(await send(first)).toMatchObject({ status: 200 });
    expect(await send(second)).toMatchObject({ status: 401, body: { code: "CERT_BINDING_MISMATCH" } });
    expect(await send(rogue)).toMatchObject(rejected);
    expect(await send(undefined)).toMatchObject(rejected);
  }
});

test("a credential with a registered certificate gets tokens with no other", async () => {
  const bound = await provision(api, {
    scopes: ["inference:read"],
    credential: { certificate_thumbprints: [thumbprint(second)] },
  });
  const json = grant(bound);
  expect(await api.overTls("/v1/auth/token", { json, pair: first })).toMatchObject({ status: 401 });
  expect(await api.overTls("/v1/auth/token", { json, pair: second })).toMatchObject({ status: 200 });
});

test("an edge requires a certificate also for a token that is bound to none", async () => {
  const development = await provision(api, { environment: "development", credential: {} });
  const answer = await fetch(`${api.publicUrl}/v1/auth/token`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(grant(development)),
  });
  const { access_token: unbound } = (await answer.json()) as { readonly access_token: string };
  expect(decodeJwt(unbound)).not.toHaveProperty("cnf");
  const headers = bearer(unbound);
  expect(await api.edge(0, "/v1/inference/x", { headers, pair: undefined })).toMatchObject(rejected);
});
