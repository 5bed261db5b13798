/** Limits hold when many ask at once. */
import { expect, test } from "vitest";
import { useTestApi } from "../../support/api.ts";
import { createTenant, type Tenant } from "../../support/tenant.ts";

const api = useTestApi();
const AT_ONCE = 12;

async function statuses(tenant: Tenant, path: string): Promise<number[]> {
  const answers = await Promise.all(Array.from({ length: AT_ONCE }, () => tenant.post(path, {})));
  return answers.map(({ status }) => status).toSorted((one, other) => one - other);
}

test("a principal has no more credentials than it may", async () => {
  const tenant = await createTenant(api, ["credentials:read", "credentials:write"]);
  const limits = { credentials_per_principal: 3 };
  expect(await api.admin("PATCH", `/tenants/${tenant.tenantId}/limits`, limits)).toMatchObject({
    status: 200,
  });
  // It has one.
  expect(await statuses(tenant, "/v1/credentials")).toEqual([201, 201, ...Array(AT_ONCE - 2).fill(422)]);
});
