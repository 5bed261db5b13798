/** Usage by tenant and day, and the proof that nothing was lost. */
import { expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { startSignet } from "#test/support/signet-command.ts";
import { createEndpoint, createTenant, expectRefusal, publish, sql } from "#test/support/tenant.ts";

const api = useTestApi();
const TODAY = new Date().toISOString().slice(0, 10);
/** A test that runs at midnight sees two days. */
const DAYS = `from=${new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)}`;

interface UsageRow {
  readonly tenant_id: string;
  readonly events: number;
  readonly deliveries: number;
  readonly bytes: number;
}

const summed = (rows: readonly UsageRow[]) => ({
  events: rows.reduce((sum, { events }) => sum + events, 0),
  deliveries: rows.reduce((sum, { deliveries }) => sum + deliveries, 0),
});

test("usage counts accepted events, their bytes and deliveries, for the tenant and for operators", async () => {
  const [tenant, other] = [await createTenant(api), await createTenant(api)];
  await createEndpoint(api, tenant);
  await createEndpoint(api, tenant);
  await publish(tenant);
  await publish(tenant);
  await publish(other);
  const own = (await tenant.get(`/v1/usage?${DAYS}`)).body["data"] as UsageRow[];
  expect(summed(own)).toEqual({ events: 2, deliveries: 4 });
  expect(own.every(({ tenant_id: id }) => id === tenant.tenantId)).toBe(true);
  expect(own.every(({ bytes }) => bytes > 0)).toBe(true);

  const all = (await api.admin("GET", `/usage?${DAYS}`)).body["data"] as UsageRow[];
  const of = (id: string): UsageRow[] => all.filter(({ tenant_id: each }) => each === id);
  expect(summed(of(tenant.tenantId))).toEqual({ events: 2, deliveries: 4 });
  expect(summed(of(other.tenantId))).toEqual({ events: 1, deliveries: 0 });

  const csv = await tenant.get(`/v1/usage?${DAYS}&format=csv`);
  expect(csv.headers.get("content-type")).toBe("text/csv; charset=utf-8");
  const [header, ...lines] = csv.text.trimEnd().split("\r\n");
  expect(header).toBe(
    "tenant_id,day,events,bytes,deliveries,delivered,dead_lettered,expired,cancelled,attempts,failed_attempts",
  );
  expect(lines.map((line) => line.split(",")[0])).toEqual(own.map(({ tenant_id: id }) => id));
});

test("pages of usage have the rows of the whole list, also across tenants without any", async () => {
  const tenants = [await createTenant(api), await createTenant(api), await createTenant(api)];
  for (const index of [0, 2]) {
    await publish(tenants[index] as (typeof tenants)[0]);
  }
  await sql(
    api,
    `INSERT INTO delivery_changes (tenant_id, endpoint_id, event_type, hour, events, bytes)
      SELECT $1, '', 'a.b', date_trunc('hour', now(), 'UTC') - make_interval(days => n), 1, 1 FROM generate_series(1, 5) AS n`,
    [tenants[2]?.tenantId],
  );
  const span = `from=${new Date(Date.now() - 9 * 86_400_000).toISOString().slice(0, 10)}`;
  const whole = (await api.admin("GET", `/usage?${span}`)).body;
  // Clients that know no pages get everything.
  expect(whole["next_cursor"]).toBeNull();
  for (const [limit, filter] of [
    [1, ""],
    [2, ""],
    [100, ""],
    [2, `&tenant_id=${tenants[2]?.tenantId}`],
  ] as const) {
    const rows: unknown[] = [];
    let cursor = "";
    for (let next: string | null = ""; next !== null; cursor = `&cursor=${next}`) {
      const page = await api.admin("GET", `/usage?${span}${filter}&limit=${limit}${cursor}`);
      expect(page.status).toBe(200);
      const data = page.body["data"] as UsageRow[];
      expect(data.length).toBeLessThanOrEqual(limit);
      rows.push(...data);
      next = page.body["next_cursor"] as string | null;
    }
    expect(rows).toEqual((await api.admin("GET", `/usage?${span}${filter}`)).body["data"]);
  }
  expectRefusal(await api.admin("GET", `/usage?${span}&limit=1&format=csv`), 400, "INVALID_REQUEST");
});

test.each([
  ["a day that does not exist", "from=2026-02-30"],
  ["a span that ends before it begins", `from=${TODAY}&to=2026-01-01`],
  ["a span of years", "from=2020-01-01"],
])("%s is rejected", async (_what, query) => {
  const tenant = await createTenant(api);
  expectRefusal(await tenant.get(`/v1/usage?${query}`), 400, "INVALID_REQUEST");
});

test("the reconciliation adds up, and names the events of missing deliveries", async () => {
  const tenant = await createTenant(api);
  await createEndpoint(api, tenant);
  const lost = await publish(tenant);
  await publish(tenant);
  const reconcile = async () => (await api.admin("GET", `/reconciliation?tenant_id=${tenant.tenantId}`)).body;
  expect(await reconcile()).toMatchObject({
    adds_up: true,
    counted: { accepted: 2, open: 2 },
    stored: { accepted: 2, open: 2 },
  });
  await sql(api, "DELETE FROM deliveries WHERE event_id = $1", [lost]);
  expect(await reconcile()).toMatchObject({
    adds_up: false,
    counted: { accepted: 2 },
    stored: { accepted: 1 },
    data: [{ adds_up: false, incomplete_events: [{ event_id: lost, missing: 1 }] }],
  });
  expect((await api.admin("GET", "/reconciliation")).body["adds_up"]).toBe(false);
  // Without its count, only the event still tells.
  await sql(
    api,
    "DELETE FROM delivery_changes WHERE ctid = (SELECT ctid FROM delivery_changes WHERE tenant_id = $1 LIMIT 1)",
    [tenant.tenantId],
  );
  expect(await reconcile()).toMatchObject({
    adds_up: false,
    counted: { accepted: 1 },
    stored: { accepted: 1 },
    data: [{ incomplete_events: [{ event_id: lost, missing: 1 }] }],
  });
  for (const since of ["2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"]) {
    expectRefusal(await api.admin("GET", `/reconciliation?since=${since}`), 400, "INVALID_REQUEST");
  }
});

test("hours that an upgrade has left uncounted are no loss: the reconciliation leaves them out and says how many", async () => {
  const tenant = await createTenant(api);
  await createEndpoint(api, tenant);
  await publish(tenant);
  // What an older version has stored is not counted.
  await sql(api, "DELETE FROM delivery_changes WHERE tenant_id = $1", [tenant.tenantId]);
  const path = `/reconciliation?tenant_id=${tenant.tenantId}`;
  expect((await api.admin("GET", path)).body).toMatchObject({ adds_up: false, uncounted_hours: 0 });
  await sql(
    api,
    `INSERT INTO uncounted_hours SELECT date_trunc('hour', now(), 'UTC') - make_interval(hours => n)
      FROM generate_series(0, 1) AS n`,
  );
  expect((await api.admin("GET", path)).body).toMatchObject({
    adds_up: true,
    uncounted_hours: 2,
    stored: { accepted: 0 },
  });
  const signet = startSignet(["reconcile", "--tenant", tenant.tenantId], api.environment);
  const { code, stderr } = await signet.ended;
  expect(code).toBe(1);
  expect(stderr).toMatch(/2 hours from before the upgrade are still being counted/);
  await sql(api, "DELETE FROM uncounted_hours");
});
