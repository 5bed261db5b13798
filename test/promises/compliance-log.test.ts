/** The compliance log is immutable: no role changes a row, and a superuser's change is found. */
import { expect, test } from "vitest";
import { deployedApi } from "../support/deployed-api.ts";
import { provision } from "../support/factories.ts";
import { createTenant, rows, sql } from "../support/tenant.ts";

const api = deployedApi();

test("a tenant reads its own entries and nobody else's", async () => {
  const tenant = await createTenant(api, ["compliance:read"]);
  const other = await provision(api);
  const [own] = rows(await tenant.get("/v1/compliance/entries?limit=100"));
  expect(own).toMatchObject({ tenant_id: tenant.tenantId });
  const [{ idx } = { idx: -1 }] = await sql<{ idx: number }>(
    api,
    "SELECT idx FROM clog WHERE tenant_id = $1 LIMIT 1",
    [other.tenantId],
  );
  expect(await tenant.get(`/v1/compliance/entries/${idx}`)).toMatchObject({ status: 404 });
});

test.each([
  "UPDATE clog SET type = 'x' WHERE idx = 0",
  "DELETE FROM clog WHERE idx = 0",
  "TRUNCATE clog",
  "INSERT INTO clog SELECT * FROM clog WHERE idx = 0",
])("the database rejects: %s", async (statement) => {
  await provision(api);
  await expect(sql(api, statement)).rejects.toThrow(/immutable|append-only|duplicate|cannot|not/);
});
