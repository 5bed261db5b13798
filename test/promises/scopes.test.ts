/** Contract 5.3 and 7: scopes are checked at the edge; what is outside them gets 403 SCOPE_VIOLATION. */
import { beforeAll, describe, expect, test } from "vitest";
import { createEdgeIdentityVerifier } from "#lib/edge-identity/verify.ts";
import { deployedApi } from "../support/deployed-api.ts";
import { accessToken, bearer, provision, type Provisioned } from "../support/factories.ts";

const api = deployedApi();
let client: Provisioned;

beforeAll(async () => {
  client = await provision(api, { scopes: ["inference:read", "telemetry:export", "webhooks:read"] });
});

describe.each([0, 1])("edge %i", (edge) => {
  test("forwards a request within the token's scopes, with a signed identity instead of the token", async () => {
    const headers = { ...bearer(await accessToken(api, client)), "x-signet-tenant": "ten_forged" };
    const answer = await api.edge(edge, "/v1/inference/signet-1", { headers });
    expect(answer).toMatchObject({
      status: 200,
      body: { service: "data plane", url: "/v1/inference/signet-1" },
    });
    const forwarded = answer.body["headers"] as Record<string, string>;
    expect(forwarded).not.toHaveProperty("authorization");
    expect(JSON.stringify(forwarded)).not.toContain("ten_forged");
    const identityOf = createEdgeIdentityVerifier({ keys: [api.deployment.identityKey] });
    const identity = identityOf({ method: "GET", url: "/v1/inference/signet-1", headers: forwarded });
    expect(identity).toMatchObject({ tenant: client.tenantId, principal: client.principalId });
  });

  test("rejects a request outside them and names the missing permission", async () => {
    const all = bearer(await accessToken(api, client));
    const narrow = bearer(await accessToken(api, client, "telemetry:export"));
    const violation = (permission: string) => ({
      status: 403,
      body: {
        status: 403,
        code: "SCOPE_VIOLATION",
        missing_permission: permission,
        missing_scopes: [permission],
      },
    });
    expect(await api.edge(edge, "/v1/pipelines", { headers: all, json: {} })).toMatchObject(
      violation("pipeline:write"),
    );
    expect(await api.edge(edge, "/v1/inference/x", { headers: narrow })).toMatchObject(
      violation("inference:read"),
    );
    expect(await api.edge(edge, "/v1/telemetry/a", { headers: narrow })).toMatchObject({ status: 200 });
  });

  test("does not forward what no route names", async () => {
    const headers = bearer(await accessToken(api, client));
    expect(await api.edge(edge, "/v1/elsewhere", { headers })).toMatchObject({
      status: 404,
      body: { code: "NOT_FOUND" },
    });
  });
});

test("the api rejects a request outside the token's scopes in the same way", async () => {
  const headers = { ...bearer(await accessToken(api, client)), "content-type": "application/json" };
  expect(await api.request("/v1/webhooks/endpoints", { headers })).toMatchObject({ status: 200 });
  expect(await api.request("/v1/events", { method: "POST", headers, body: "{}" })).toMatchObject({
    status: 403,
    body: { code: "SCOPE_VIOLATION", missing_permission: "events:publish" },
  });
});
