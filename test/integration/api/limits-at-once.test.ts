/** Limits hold under concurrent requests. */
import { expect, test } from "vitest";
import { useSharedApi } from "../../support/api.ts";
import { createTenant, type Tenant } from "../../support/tenant.ts";

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
