/** Limits hold under concurrent requests. */
import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { createTenant, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const CONCURRENT = 12;

async function statuses(tenant: Tenant, path: string): Promise<number[]> {
  const answers = await Promise.all(Array.from({ length: CONCURRENT }, () => tenant.post(path, {})));
  return answers.map(({ status }) => status).toSorted((one, other) => one - other);
}

test("concurrent requests cannot exceed a principal's limit of credentials", async () => {
  const tenant = await createTenant(api, ["credentials:read", "credentials:write"]);
  const limits = { credentials_per_principal: 3 };
  expect(await api.admin("PATCH", `/tenants/${tenant.tenantId}/limits`, limits)).toMatchObject({
    status: 200,
  });
  // The principal already has one.
  expect(await statuses(tenant, "/v1/credentials")).toEqual([201, 201, ...Array(CONCURRENT - 2).fill(422)]);
});

test("a login that may only connect can hold no lock that requests wait for", async () => {
  const scopes = ["credentials:write", "webhooks:write", "portal:sign_in", "ssf:manage"];
  const tenant = await createTenant(api, scopes);
  const { tenantId, principalId, credentialId } = tenant;
  const stranger = new Client({ connectionString: api.database.adminUrl });
  await stranger.connect();
  onTestFinished(async () => await stranger.end());
  // What the requests below have locked, and do lock.
  const names = [
    ...["endpoints", "event-types", "ssf_streams", "replay_jobs"].map((what) => `${what}/${tenantId}`),
    ...[" ", "/"].flatMap((between) => [
      `credentials${between}${principalId}`,
      `portal_links${between}${credentialId}`,
    ]),
  ];
  await stranger.query(
    "SELECT pg_advisory_lock(hashtextextended(name, 0)) FROM unnest($1::text[]) AS names (name)",
    [names],
  );
  const receiver = "https://hooks.example.com/x";
  const answers = await Promise.all([
    tenant.post("/v1/credentials", {}),
    tenant.post("/v1/portal/links", {}),
    tenant.post("/v1/webhooks/endpoints", { url: receiver, events: ["order.paid"] }),
    tenant.post("/v1/webhooks/event-types", { name: "order.paid" }),
    tenant.post("/v1/ssf/streams", { delivery: { method: "urn:ietf:rfc:8936" }, events_requested: [] }),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
});
