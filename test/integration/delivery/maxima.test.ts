/** The largest values that operators may set hold: every setting at once, and each limit of a tenant. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { SETTINGS } from "#config/config.ts";
import { TENANT_LIMITS, type TenantLimitName } from "#config/tenant-limits.ts";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken } from "#test/support/factories.ts";
import { type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import {
  createTenant,
  expectRefusal,
  publish,
  rows,
  sql,
  type Tenant,
  WEBHOOK_SCOPES,
} from "#test/support/tenant.ts";

/** Derived from the parsers, so that a new setting with a range is tested here without another line. */
const EVERY_MAXIMUM = Object.fromEntries(
  Object.values(SETTINGS).flatMap(({ variable, parse }) =>
    "maximum" in parse && parse.maximum !== undefined ? [[variable, parse.maximum]] : [],
  ),
);

const api = useTestApi({ worker: true, environment: EVERY_MAXIMUM });
let receiver: Receiver;
let tenant: Tenant;

beforeAll(async () => {
  receiver = await startReceiver();
  tenant = await createTenant(api, [...WEBHOOK_SCOPES, "credentials:read", "credentials:write"]);
  const max = Object.fromEntries(Object.entries(TENANT_LIMITS).map(([name, rule]) => [name, rule.max]));
  await api.admin("PATCH", `/tenants/${tenant.tenantId}/limits`, max);
});
afterAll(async () => {
  await receiver.close();
});

const register = async (): Promise<Answer> =>
  await tenant.post("/v1/webhooks/endpoints", { url: receiver.url, events: ["largest.value"] });

/** Copies the tenant's newest row of a table `count` times, each under other values of the unique columns. */
async function copy(table: string, unique: readonly string[], count: number): Promise<void> {
  const [found] = await sql<{ columns: string }>(
    api,
    `SELECT string_agg(quote_ident(column_name), ', ') AS columns FROM information_schema.columns
      WHERE table_schema = 'public' AND table_name = $1 AND is_generated = 'NEVER'`,
    [table],
  );
  const columns = found?.columns ?? "";
  const values = unique.map((column) => `'${column}', left((model).${column}, -6) || lpad(n::text, 6, '0')`);
  await sql(
    api,
    `INSERT INTO ${table} (${columns}) SELECT ${columns}
       FROM (SELECT t FROM ${table} t WHERE tenant_id = $1 ORDER BY created_at DESC LIMIT 1) AS newest (model),
         generate_series(1, $2::int) AS n, jsonb_populate_record(model, jsonb_build_object(${values.join(", ")}))`,
    [tenant.tenantId, count],
  );
  await sql(api, `ANALYZE ${table}`);
}

interface Filling {
  readonly table: string;
  readonly unique: readonly string[];
  readonly path: string;
  readonly add: () => Promise<Answer>;
}

/** How a tenant reaches a limit. The rates have no rows. */
const FILLED: Readonly<Record<TenantLimitName, Filling | undefined>> = {
  api_requests_per_second: undefined,
  published_events_per_second: undefined,
  endpoints: { table: "endpoints", unique: ["id"], path: "/v1/webhooks/endpoints", add: register },
  event_types: {
    table: "event_types",
    unique: ["name"],
    path: "/v1/webhooks/event-types",
    // The copies count up from the zeros.
    add: async () =>
      await tenant.post("/v1/webhooks/event-types", { name: `largest.value${Date.now()}000000` }),
  },
  credentials_per_principal: {
    table: "credentials",
    unique: ["id", "client_id"],
    path: "/v1/credentials",
    add: async () => await tenant.post("/v1/credentials", {}),
  },
};

test("an api and a worker with every setting at its maximum issue tokens and deliver", async () => {
  expect(Object.keys(EVERY_MAXIMUM).length).toBeGreaterThan(30);
  const { body } = await register();
  await eventually(
    async () => (await tenant.get(`/v1/webhooks/endpoints/${String(body["id"])}`)).body["state"] === "ACTIVE",
    "the endpoint to be ACTIVE",
  );
  const id = await publish(tenant, { type: "largest.value" });
  await eventually(() => receiver.requests.some(({ rawBody }) => rawBody.includes(id)), "the delivery");
});

test.each(
  Object.entries(FILLED).flatMap(([name, filling]) =>
    filling === undefined ? [] : [[name, filling] as const],
  ),
)(
  "a tenant with the most %s that operators may allow gets them, and no more, and they serve",
  async (name, { table, unique, path, add }) => {
    const { max } = TENANT_LIMITS[name as TenantLimitName];
    expect(await add()).toMatchObject({ status: 201 });
    const [had] = await sql<{ count: number }>(
      api,
      `SELECT count(*)::int AS count FROM ${table} WHERE tenant_id = $1`,
      [tenant.tenantId],
    );
    await copy(table, unique, max - 1 - (had?.count ?? 0));
    expect(await add()).toMatchObject({ status: 201 });
    expectRefusal(await add(), 422, "LIMIT_EXCEEDED");
    expect(rows(await tenant.get(`${path}?limit=100`))).toHaveLength(100);
    expect(await accessToken(api, tenant)).not.toBe("");
    await publish(tenant, { type: "another.value" });
  },
);
