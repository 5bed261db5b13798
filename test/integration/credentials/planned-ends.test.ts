/** A credential that was replaced ends by plan: it gets no tokens, and its last ones live on. */
import { expect, test } from "vitest";
import { useTestApi } from "../../support/api.ts";
import { useTestEdge } from "../../support/edge.ts";
import { accessToken, bearer, grant, provision } from "../../support/factories.ts";
import { sweepCredentials, tellOfRevocations } from "../../support/revocation-notices.ts";
import { createEndpoint, createTenant, sql, WEBHOOK_SCOPES } from "../../support/tenant.ts";

const OVERLAP_SECONDS = 20;
const TOKEN_SECONDS = 900;
/** Clocks may differ by so much at an expiry. */
const LEEWAY_SECONDS = 10;
const api = useTestApi();
const edge = useTestEdge(api);

const sweep = async (): Promise<number> => await sweepCredentials(api);

async function admitted(token: string): Promise<readonly unknown[]> {
  const headers = bearer(token);
  const atEdge = await fetch(`${edge.url}/v1/inference/x`, { headers });
  const atApi = await api.request("/v1/webhooks/endpoints", { headers });
  return [atEdge.status, atApi.status, atApi.body["code"]];
}

test("a token outlives the end of its replaced credential until its own expiry", async () => {
  const tenant = await createTenant(api);
  await createEndpoint(api, tenant, { events: ["credential.ended", "credential.revoked"] });
  const scopes = [...WEBHOOK_SCOPES, "credentials:write", "inference:read"];
  const clients = [];
  for (let count = 0; count < 3; count += 1) {
    clients.push(await provision(api, { tenantId: tenant.tenantId, scopes }));
  }
  const tokens: string[] = [];
  for (const client of clients) {
    const token = await accessToken(api, client);
    const replaced = await api.request("/v1/credentials", {
      method: "POST",
      headers: { ...bearer(token), "content-type": "application/json" },
      body: JSON.stringify({ replaces: client.credentialId, overlap_seconds: OVERLAP_SECONDS }),
    });
    expect(replaced, replaced.text).toMatchObject({ status: 201 });
    tokens.push(await accessToken(api, client));
  }
  const [token = ""] = tokens;
  const [client] = clients;
  const sequence = async (): Promise<unknown> => await sql(api, "SELECT seq FROM rev_clock");
  const before = await sequence();

  api.clock.advance((OVERLAP_SECONDS + 1) * 1_000);
  expect(client && (await api.token(grant(client)))).toMatchObject({ status: 401 });
  expect(await sweep()).toBe(3);
  expect(client && (await api.token(grant(client)))).toMatchObject({ status: 401 });
  expect(await sequence()).toEqual(before);
  expect(await admitted(token)).toEqual([200, 200, undefined]);
  api.clock.advance((TOKEN_SECONDS - OVERLAP_SECONDS - 60) * 1_000);
  expect(await admitted(token)).toEqual([200, 200, undefined]);
  api.clock.advance((60 + LEEWAY_SECONDS) * 1_000);
  expect(await admitted(token)).toEqual([401, 401, "TOKEN_EXPIRED"]);

  await tellOfRevocations(api);
  const types = await sql(
    api,
    "SELECT type, count(*)::int FROM events WHERE tenant_id = $1 AND type LIKE 'credential.%' GROUP BY type",
    [tenant.tenantId],
  );
  expect(types).toEqual([{ type: "credential.ended", count: 3 }]);
});

test("a credential can be revoked after its planned end, while its tokens live", async () => {
  const scopes = [...WEBHOOK_SCOPES, "credentials:write", "inference:read"];
  const client = await provision(api, { scopes });
  const token = await accessToken(api, client);
  await sql(api, "UPDATE credentials SET ends_at = $2, replaced_by = id WHERE id = $1", [
    client.credentialId,
    new Date(api.clock.now() - 1_000),
  ]);
  expect(await sweep()).toBe(1);
  expect(await admitted(token)).toEqual([200, 200, undefined]);
  const revoked = await api.admin("POST", `/credentials/${client.credentialId}/revoke`, { reason: "leaked" });
  expect(revoked).toMatchObject({ status: 200 });
  expect(await admitted(token)).toEqual([401, 401, "TOKEN_REVOKED"]);
  await tellOfRevocations(api);
  const types = await sql(api, "SELECT type FROM events WHERE tenant_id = $1 ORDER BY type", [
    client.tenantId,
  ]);
  expect(types).toEqual([{ type: "credential.ended" }, { type: "credential.revoked" }]);
});
