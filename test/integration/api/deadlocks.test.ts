/** What a caller sees if PostgreSQL ends its transaction in favour of another one. */
import { expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { createEndpoint, createTenant, publish, sql, type Tenant } from "#test/support/tenant.ts";

const api = useTestApi();

/** Makes PostgreSQL end the next `times` inserts into a table with an error, as it ends one side of a deadlock. */
async function endInserts(code: string, times: number, table = "events"): Promise<void> {
  await sql(
    api,
    `CREATE SEQUENCE ended;
    GRANT USAGE ON ended TO PUBLIC;
    CREATE FUNCTION end_insert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      -- A rollback leaves the sequence.
      IF nextval('public.ended') <= ${times} THEN
        RAISE EXCEPTION 'ended' USING ERRCODE = '${code}';
      END IF;
      RETURN NEW;
    END $$;
    CREATE TRIGGER ended BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION end_insert()`,
  );
}

async function endNoInserts(): Promise<void> {
  await sql(api, "DROP FUNCTION end_insert() CASCADE; DROP SEQUENCE ended");
}

test("a publish that loses in a deadlock is repeated, and its event is accepted once", async () => {
  const tenant = await createTenant(api);
  await createEndpoint(api, tenant);
  await endInserts("40P01", 2);
  const id = await publish(tenant);
  await endNoInserts();
  expect(await sql(api, "SELECT id FROM events WHERE tenant_id = $1", [tenant.tenantId])).toEqual([{ id }]);
  const stored = await sql(api, "SELECT event_id FROM deliveries WHERE tenant_id = $1", [tenant.tenantId]);
  expect(stored).toEqual([{ event_id: id }]);
});

test.each([
  ["a deadlock", "40P01", 5],
  ["a serialization failure", "40001", 5],
  // Others wait behind a statement that waits for its lock again.
  ["a lock that is not free in time", "55P03", 1],
])("a publish that ends with %s again and again is 503 with Retry-After", async (_what, code, tries) => {
  const tenant = await createTenant(api);
  await endInserts(code, 1_000);
  const answer = await tenant.post("/v1/events", { type: "inference.completed", data: {} });
  const [used] = await sql<{ last_value: number }>(api, "SELECT last_value::int FROM ended");
  await endNoInserts();
  expect(used?.last_value).toBe(tries);
  expect(answer).toMatchObject({ status: 503, body: { code: "UNAVAILABLE" } });
  expect(answer.headers.get("retry-after")).toBe("5");
});

test.each([
  ["an endpoint", "endpoints", async (tenant: Tenant) => await createEndpoint(api, tenant)],
  ["a tenant", "tenants", async () => await createTenant(api)],
])("the creation of %s that loses in a deadlock is repeated", async (_what, table, create) => {
  const tenant = await createTenant(api);
  await endInserts("40P01", 2, table);
  await create(tenant);
  const [used] = await sql<{ last_value: number }>(api, "SELECT last_value::int FROM ended");
  await endNoInserts();
  expect(used?.last_value).toBeGreaterThan(2);
});
